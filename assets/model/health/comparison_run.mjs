/** The chosen row of another run, drawn over the curves of this run. */
import { make } from '../../lib/dom.mjs';
import { setModel } from '../shared/model_state.mjs';
import { fillOptions } from '../shared/select_options.mjs';
import { drawnRowOf, healthData, rowText, smoothed } from './health_data.mjs';

const MOST_RUNS = 200;

/**
 * Values of one row at the steps in which it was recorded, and the positions of these steps on another axis.
 * @param {import('./health_data.mjs').Health} data of the other run @param {string} key of the row @param {number} weight of smoothing
 * @returns {{steps: number[], values: number[], places: ?number[]}}
 */
export function lineOf(data, key, weight) {
  const row = drawnRowOf(data, key);
  if (row < 0) return { steps: [], values: [], places: null };
  const values = [...smoothed(data.value.subarray(row * data.width, (row + 1) * data.width), weight)];
  const known = values.map((value, column) => column).filter((column) => !Number.isNaN(values[column]));
  return {
    steps: known.map((column) => data.firstStep[column]), values: known.map((column) => values[column]),
    places: data.axis ? known.map((column) => data.place[column]) : null,
  };
}

export class ComparisonRun {
  constructor(app) {
    Object.assign(this, { app, runs: [], data: null });
    this.select = make('select', { 'aria-label': 'compare with run' });
    this.select.addEventListener('change', () => setModel(app, { beside: this.select.value }, { push: true }));
    this.note = make('span', { class: 'quiet' });
    this.element = make('label', {}, ['compare with run ', this.select]);
    this.#listRuns();
    this.#options();
  }

  /** Load the runs to choose from; without an answer there are fewer. */
  async #listRuns() {
    const { runs } = await this.app.json(`${this.app.base}/api/runs`).catch(() => ({ runs: [] }));
    this.runs = runs.map(({ name }) => name).filter((name) => name !== this.app.view.run).slice(0, MOST_RUNS);
    this.#options();
  }

  #options() {
    const { beside: other } = this.app.view.model;
    const names = other && !this.runs.includes(other) ? [...this.runs, other] : this.runs;
    fillOptions(this.select, [['', 'none'], ...names.map((name) => [name, name])], other ?? '');
  }

  /** Load the statistics of the other run; if there are none, `note` shows why. */
  async fetch(params, signal) {
    const { beside: other } = this.app.view.model;
    this.#options();
    this.data = null;
    this.problem = '';
    if (!other) return;
    try {
      const data = healthData(await this.app.arrays(this.app.api('model/health', { ...params, attempt: null }, other), signal));
      if (params.axis && data.width && !data.axis) this.problem = `run ${other} has no axis of ${params.axis}`;
      else this.data = data;
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      this.problem = error.message;
    }
  }

  /** The line of a row, null if the other run does not have it. */
  line(row, weight) {
    const { beside: other } = this.app.view.model;
    const line = this.data && row ? lineOf(this.data, row.key, weight) : null;
    const isThere = line && line.steps.length > 0;
    if (!other) this.note.textContent = '';
    else this.note.textContent = isThere ? `dashed: ${rowText(row)} of run ${other}` : this.problem || `run ${other} did not record this row`;
    return isThere ? line : null;
  }
}
