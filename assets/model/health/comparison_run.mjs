/** The same row of another run beside a run's own curves. */
import { make } from '../../lib/dom.mjs';
import { setModel } from '../shared/model_state.mjs';
import { fillOptions } from '../shared/select_options.mjs';
import { drawnRowOf, healthData, rowText, smoothed } from './health_data.mjs';

const MOST_RUNS = 200;

/**
 * Steps and values of one row, the steps in which it was recorded, and their places on another axis.
 * @param {import('./health_data.mjs').Health} data of the other run @param {string} key of the row @param {number} weight of smoothing
 * @returns {{steps: number[], values: number[], places: ?number[]}}
 */
export function lineOf(data, key, weight) {
  const row = drawnRowOf(data, key);
  if (row < 0) return { steps: [], values: [], places: null };
  const values = [...smoothed(data.value.subarray(row * data.width, (row + 1) * data.width), weight)];
  const known = values.map((value, at) => at).filter((at) => !Number.isNaN(values[at]));
  return {
    steps: known.map((at) => data.firstStep[at]), values: known.map((at) => values[at]),
    places: data.axis ? known.map((at) => data.place[at]) : null,
  };
}

export class Beside {
  constructor(app) {
    Object.assign(this, { app, runs: [], data: null });
    this.select = make('select', { 'aria-label': 'beside run' });
    this.select.addEventListener('change', () => setModel(app, { beside: this.select.value }, { push: true }));
    this.said = make('span', { class: 'quiet' });
    this.element = make('label', {}, ['beside run ', this.select]);
    this.#listRuns();
    this.#options();
  }

  /** Without them the choice has fewer entries. */
  async #listRuns() {
    const { runs } = await this.app.json(`${this.app.base}/api/runs`).catch(() => ({ runs: [] }));
    this.runs = runs.map(({ name }) => name).filter((name) => name !== this.app.view.run).slice(0, MOST_RUNS);
    this.#options();
  }

  #options() {
    const { beside } = this.app.view.model;
    const names = beside && !this.runs.includes(beside) ? [...this.runs, beside] : this.runs;
    fillOptions(this.select, [['', 'none'], ...names.map((name) => [name, name])], beside ?? '');
  }

  /** Statistics of the other run; none where none is chosen or it has none, which `said` tells. */
  async fetch(asked, signal) {
    const { beside } = this.app.view.model;
    this.#options();
    this.data = null;
    this.problem = '';
    if (!beside) return;
    try {
      const data = healthData(await this.app.arrays(this.app.api('model/health', { ...asked, attempt: null }, beside), signal));
      if (asked.axis && data.width && !data.axis) this.problem = `run ${beside} has no axis of ${asked.axis}`;
      else this.data = data;
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      this.problem = error.message;
    }
  }

  /** The line of a row, null: there is none. */
  line(row, weight) {
    const { beside } = this.app.view.model;
    const line = this.data && row ? lineOf(this.data, row.key, weight) : null;
    const isThere = line && line.steps.length > 0;
    if (!beside) this.said.textContent = '';
    else this.said.textContent = isThere ? `dashed: ${rowText(row)} of run ${beside}` : this.problem || `run ${beside} has nothing of this row`;
    return isThere ? line : null;
  }
}
