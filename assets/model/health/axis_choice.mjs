/** The choice of Health's axis: steps, time or tokens. Axes that a run does not have are disabled, with the reason. */
import { make } from '../../lib/dom.mjs';
import { setModel } from '../shared/model_state.mjs';
import { fillOptions } from '../shared/select_options.mjs';

const NAMES = [['', 'steps'], ['time', 'time'], ['tokens', 'tokens']];

/** The axis in the view state; '' is the axis of steps. @param {Object<string, string>} model */
export const axisOf = ({ axis }) => (NAMES.some(([name]) => name === axis) ? axis : '');

/** Sentences about axes that a run does not have. @param {{name: string, why_not: string}[]} axes */
export const missingAxes = (axes) => axes.filter(({ why_not: why }) => why).map(({ name, why_not: why }) => `No axis of ${name}: ${why}.`).join(' ');

export class AxisChoice {
  constructor(app) {
    this.app = app;
    this.select = make('select', { 'aria-label': 'over' });
    fillOptions(this.select, NAMES, '');
    this.select.addEventListener('change', () => setModel(app, { axis: this.select.value }, { push: true }));
    this.note = make('span', { class: 'quiet' });
    this.element = make('label', {}, ['over ', this.select]);
  }

  /** Load the axes of the run. If that fails all of them can be chosen: the server falls back to steps. */
  async fetch(attempt, signal) {
    const { axes } = await this.app.json(this.app.api('model/axes', { attempt }), signal).catch(() => ({ axes: [] }));
    if (signal.aborted) return;
    for (const option of this.select.options) option.disabled = axes.some(({ name, why_not: why }) => name === option.value && why);
    this.note.textContent = missingAxes(axes);
  }

  /** Show the axis of the drawn data. @param {import('./health_data.mjs').Health} data */
  show(data) {
    this.select.value = data.axis?.name ?? '';
  }
}
