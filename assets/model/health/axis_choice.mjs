/** What Health is drawn over: steps, time or tokens; what a run does not tell is greyed, with why. */
import { make } from '../../lib/dom.mjs';
import { setModel } from '../shared/model_state.mjs';
import { fillOptions } from '../shared/select_options.mjs';

const NAMES = [['', 'steps'], ['time', 'time'], ['tokens', 'tokens']];

/** The axis of an address: '' that of steps. @param {Object<string, string>} model */
export const axisOf = ({ axis }) => (NAMES.some(([name]) => name === axis) ? axis : '');

/** Sentences about the axes that a run does not have. @param {{name: string, why_not: string}[]} axes */
export const whyNot = (axes) => axes.filter((one) => one.why_not).map((one) => `No axis of ${one.name}: ${one.why_not}.`).join(' ');

export class AxisChoice {
  constructor(app) {
    this.app = app;
    this.select = make('select', { 'aria-label': 'over' });
    fillOptions(this.select, NAMES, '');
    this.select.addEventListener('change', () => setModel(app, { axis: this.select.value }, { push: true }));
    this.said = make('span', { class: 'quiet' });
    this.element = make('label', {}, ['over ', this.select]);
  }

  /** Ask which axes the run has. Without an answer all of them can be chosen: the server takes steps instead. */
  async fetch(attempt, signal) {
    const { axes } = await this.app.json(this.app.api('model/axes', { attempt }), signal).catch(() => ({ axes: [] }));
    if (signal.aborted) return;
    for (const option of this.select.options) option.disabled = axes.some(({ name, why_not: why }) => name === option.value && why);
    this.said.textContent = whyNot(axes);
  }

  /** Say what is drawn. @param {import('./health_data.mjs').Health} data */
  show(data) {
    this.select.value = data.axis?.name ?? '';
  }
}
