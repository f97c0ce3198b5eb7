/** The opened frame and the pinned frames in full, next to each other on one colour scale. */
import { make } from '../../lib/dom.mjs';
import { difference, frameText } from '../shared/frame.mjs';
import { peakOf } from '../shared/frame_codes.mjs';
import { Matrix } from './matrix.mjs';

export class FullFrames {
  /** @param {import('./frame_source.mjs').FrameSource} source @param {(key: string) => void} pin called when the user pins a frame */
  constructor(source, pin) {
    Object.assign(this, { source, pin, panels: [], element: make('div', { class: 'model-full' }) });
  }

  destroy() {
    this.panels.forEach(({ matrix }) => matrix.destroy());
  }

  /**
   * @param {string[]} keys of frameKey @param {string[]} pins
   * @param {import('./frame_source.mjs').Chosen} chosen, `subtracted` of subtractedStep, and names of the tokens of a step
   */
  async show(keys, pins, chosen, signal) {
    const unique = [...new Set(keys)];
    const frames = await Promise.all(unique.map((key) => this.#compared(key, chosen, signal)));
    if (signal.aborted) return;
    while (this.panels.length > unique.length) {
      const { matrix, panel } = this.panels.pop();
      matrix.destroy();
      panel.remove();
    }
    while (this.panels.length < unique.length) this.panels.push(this.#panel());
    const existing = frames.filter(Boolean);
    const peak = Math.max(0, ...existing.map(({ values }) => peakOf(values)));
    for (const frame of existing) {  // live frames arrive one by one: names belong to one step
      if (frame.what !== 'attention' || !frame.labels.length) frame.names = frame.step === chosen.namesStep ? chosen.names : [];
    }
    this.panels.forEach((view, i) => this.#fill(view, unique[i], frames[i], pins, unique.length > 1 ? peak : null));
  }

  /** A frame minus the one it is compared with; the unchanged frame with the reason if that is not possible. */
  async #compared(key, chosen, signal) {
    const frame = await this.source.frame(key, chosen, signal);
    const { subtracted } = chosen;
    if (!frame || !subtracted) return frame;
    const { run, step, where, attempt } = subtracted;
    const result = await this.source.frame(key, { ...chosen, step, run, attempt }, signal)
      .then((other) => difference(frame, other, where), (error) => {
        if (error.name === 'AbortError') throw error;
        return { problem: `not compared with ${where}: ${error.message}` };
      });
    return result.frame ?? { ...frame, problem: result.problem };
  }

  #panel() {
    const title = make('h2');
    const about = make('span', { class: 'quiet' });
    const pin = make('button', {}, 'Pin');
    const problem = make('p', { class: 'fault', role: 'status', hidden: '' });
    const panel = make('section', { class: 'panel' }, [make('header', {}, [title, about, pin]), problem]);
    const view = { panel, title, about, pin, problem, key: null, matrix: null };
    view.matrix = new Matrix(panel, { pointed: (hit) => this.#highlight(view.matrix, hit) });
    pin.addEventListener('click', () => this.pin(view.key));
    this.element.append(panel);
    return view;
  }

  #fill(view, key, frame, pins, peak) {
    view.key = key;
    const isPinned = pins.includes(key);
    view.pin.textContent = isPinned ? 'Unpin' : 'Pin';
    view.pin.setAttribute('aria-pressed', String(isPinned));
    view.title.textContent = frame ? `${frame.what}, ${frameText(frame)}` : key;
    view.about.textContent = frame ? `step ${frame.step}${frame.less === undefined ? '' : ` minus ${frame.less}`}, ${frame.rows} × ${frame.columns}, `
      + `${frame.sample < 0 ? 'mean of the batch' : `sequence ${frame.sample}`}` : 'not in this step';
    view.problem.textContent = frame?.problem ?? '';
    view.problem.hidden = !frame?.problem;
    view.matrix.show(frame, peak);
  }

  /** Highlight the same row and column in all other frames. */
  #highlight(source, hit) {
    for (const { matrix } of this.panels) {
      if (matrix === source) continue;
      matrix.highlighted = hit;
      matrix.redraw();
    }
  }
}
