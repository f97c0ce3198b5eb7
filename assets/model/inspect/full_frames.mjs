/** Frames in full beside each other, the opened one and those that are pinned, on one colour scale. */
import { make } from '../../lib/dom.mjs';
import { difference, frameText } from '../shared/frame.mjs';
import { peakOf } from '../shared/frame_codes.mjs';
import { Matrix } from './matrix.mjs';

export class FullFrames {
  /** @param {import('./frame_source.mjs').FrameSource} source @param {(key: string) => void} pin asked for */
  constructor(source, pin) {
    Object.assign(this, { source, pin, panels: [], element: make('div', { class: 'model-full' }) });
  }

  destroy() {
    this.panels.forEach(({ matrix }) => matrix.destroy());
  }

  /**
   * @param {string[]} keys of placeOf @param {string[]} pins
   * @param {import('./frame_source.mjs').Chosen} chosen, `less` of lessOf, and names of the tokens of a step
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
    const there = frames.filter(Boolean);
    const peak = Math.max(0, ...there.map(({ values }) => peakOf(values)));
    for (const frame of there) {  // live ones come one by one: names are those of one step
      if (frame.what !== 'attention' || !frame.labels.length) frame.names = frame.step === chosen.namesStep ? chosen.names : [];
    }
    this.panels.forEach((one, at) => this.#fill(one, unique[at], frames[at], pins, unique.length > 1 ? peak : null));
  }

  /** A frame, less the one it is to be compared with; where that cannot be, it says why. */
  async #compared(key, chosen, signal) {
    const frame = await this.source.frame(key, chosen, signal);
    const { less } = chosen;
    if (!frame || !less) return frame;
    const { run, step, where, attempt } = less;
    const found = await this.source.frame(key, { ...chosen, step, run, attempt }, signal)
      .then((other) => difference(frame, other, where), (error) => {
        if (error.name === 'AbortError') throw error;
        return { problem: `not compared with ${where}: ${error.message}` };
      });
    return found.frame ?? { ...frame, problem: found.problem };
  }

  #panel() {
    const title = make('h2');
    const about = make('span', { class: 'quiet' });
    const pin = make('button', {}, 'Pin');
    const problem = make('p', { class: 'fault', role: 'status', hidden: '' });
    const panel = make('section', { class: 'panel' }, [make('header', {}, [title, about, pin]), problem]);
    const one = { panel, title, about, pin, problem, key: null, matrix: null };
    one.matrix = new Matrix(panel, { pointed: (hit) => this.#light(one.matrix, hit) });
    pin.addEventListener('click', () => this.pin(one.key));
    this.element.append(panel);
    return one;
  }

  #fill(one, key, frame, pins, peak) {
    one.key = key;
    const isPinned = pins.includes(key);
    one.pin.textContent = isPinned ? 'Unpin' : 'Pin';
    one.pin.setAttribute('aria-pressed', String(isPinned));
    one.title.textContent = frame ? `${frame.what}, ${frameText(frame)}` : key;
    one.about.textContent = frame ? `step ${frame.step}${frame.less === undefined ? '' : ` less ${frame.less}`}, ${frame.rows} × ${frame.columns}, `
      + `${frame.sample < 0 ? 'mean of the batch' : `sequence ${frame.sample}`}` : 'not in this step';
    one.problem.textContent = frame?.problem ?? '';
    one.problem.hidden = !frame?.problem;
    one.matrix.show(frame, peak);
  }

  /** The same row and column in all that are shown. */
  #light(pointed, hit) {
    for (const { matrix } of this.panels) {
      if (matrix === pointed) continue;
      matrix.lit = hit;
      matrix.redraw();
    }
  }
}
