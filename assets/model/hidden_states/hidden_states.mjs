/** Panel of Inspect for the residual stream: hidden states in two dimensions, on axes that stay fixed. */
import { make } from '../../lib/dom.mjs';
import { setModel } from '../shared/model_state.mjs';
import { axesText } from './points.mjs';
import { Scatter } from './scatter.mjs';

/** Choices of axes; the axes of a chosen step stay in the list whatever step is shown. */
const axesOf = (step, chosen) => [
  ['first', 'of the first recorded step'], ['own', 'of each step'],
  ...[...new Set([String(step), ...(/^\d+$/.test(chosen) ? [chosen] : [])])].map((name) => [name, `of step ${name}`]),
  ['random', 'random directions'],
];

export class HiddenStates {
  /** @param {(layer: number) => void} opened called when the user chooses a layer */
  constructor(app, opened) {
    Object.assign(this, { app, points: null, layer: 0, names: [] });
    this.title = make('h2', {}, 'Hidden states');
    this.about = make('p', { class: 'quiet' });
    this.axes = make('select', { 'aria-label': 'axes' });
    this.axes.addEventListener('change', () => setModel(app, { axes: this.axes.value === 'first' ? null : this.axes.value }, { push: true }));
    this.unit = make('input', { type: 'checkbox' });
    this.unit.addEventListener('change', () => setModel(app, { unit: this.unit.checked ? 1 : null }, { push: true }));
    this.element = make('section', { class: 'panel model-states', hidden: '' }, [
      make('header', {}, [this.title, make('label', {}, ['axes ', this.axes]),
        make('label', { title: 'divide each state by its RMS, as the norm of the next layer does' }, [this.unit, ' unit length'])]),
    ]);
    this.scatter = new Scatter(this.element, { chosen: (token) => setModel(app, { token }), layer: opened });
    this.element.append(this.about);
    this.follow = () => this.#draw();
    app.addEventListener('view', this.follow);
  }

  destroy() {
    this.app.removeEventListener('view', this.follow);
    this.scatter.destroy();
  }

  hide() {
    this.element.hidden = true;
  }

  /** @param {{step: number, sample: ?number, layer: number, names: (string|number)[], isLive: ?boolean}} wanted */
  async show({ step, sample, layer, names, isLive = false }, signal) {
    const { app } = this;
    const { axes = 'first', unit } = app.view.model;
    Object.assign(this, { layer, names });
    this.axes.replaceChildren(...axesOf(step, axes).map(([name, text]) => make('option', { value: name }, text)));
    this.axes.value = axes;
    this.unit.checked = Boolean(unit);
    this.element.hidden = false;
    const url = app.api('model/states', { what: 'residual', step, sample, axes, unit, attempt: app.view.attempt });
    if (isLive && url === this.url) return;  // each live frame would load the same recorded step again
    this.url = url;
    try {
      const { arrays, meta } = await app.arrays(url, signal);
      if (signal.aborted) return;
      this.points = { ...meta, point: arrays.point };
      this.about.textContent = `${axesText(this.points)}. Point at a token to see its path through the layers; click to keep it.`;
    } catch (error) {
      if (error.name === 'AbortError') return;
      this.points = null;
      this.about.textContent = error.message;
    }
    this.title.textContent = `Hidden states after layer ${layer}${this.points ? `, step ${this.points.step}` : ''}`;
    this.#draw();
  }

  #draw() {
    const { token } = this.app.view.model;
    if (this.app.view.page === 'model') this.scatter.show(this.points, this.layer, token === undefined ? null : Number(token), this.names);
  }
}
