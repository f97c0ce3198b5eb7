/** One step as it ran and without stragglers: canvas, choice of step and replica, table. */
import { onTheme } from '../lib/canvas/canvas_theme.mjs';
import { LABEL_OF_KIND, readTheme } from '../lib/canvas/kind_colours.mjs';
import { isSoftwareGl } from '../lib/canvas/software_gl.mjs';
import { placeTip, pointOn } from '../lib/canvas/tooltip.mjs';
import { make } from '../lib/dom.mjs';
import { cellRanks, ranksText, ratio, seconds } from './messages.mjs';
import { draw, timeOf } from './replay_draw.mjs';
import { layoutOf, pieceAt, placeAt, sums, WAITING, WORLDS } from './replay_lanes.mjs';
import { rankLink } from './summary.mjs';

const CLOSER = 0.7;
const SHORTEST_S = 1e-5;
const ONE_STEP = 'This file holds this step alone; the live page replays every step, of every dp rank.';

export class ReplayView {
  constructor(element, app) {
    Object.assign(this, { element, app, ops: null, result: null, window: null, drawn: null });
    this.#build();
    this.context = this.canvas.getContext('2d', { willReadFrequently: isSoftwareGl() });
    this.stopTheme = onTheme(() => this.draw());
    this.resizing = new ResizeObserver(() => this.draw());
    this.resizing.observe(this.stage);
  }

  destroy() {
    this.resizing.disconnect();
    this.stopTheme();
  }

  #build() {
    const button = (text, label, act) => {
      const made = make('button', { type: 'button', 'aria-label': label, title: label }, text);
      made.addEventListener('click', act);
      return made;
    };
    this.step = make('input', { type: 'number', min: '0', step: '1', 'aria-label': 'step that is replayed', class: 'whatif-step' });
    this.step.addEventListener('change', () => this.step.value !== '' && this.#go(Number(this.step.value)));
    this.replica = make('select', { 'aria-label': 'dp rank whose stages are shown' });
    this.replica.addEventListener('change', () => this.app.set({ rank: Number(this.replica.value) }));
    this.about = make('span', { class: 'quiet', role: 'status' });
    this.canvas = make('canvas', { tabindex: '0', role: 'img', 'aria-label': 'A step as it ran and without stragglers' });
    this.tip = make('div', { class: 'map-tip', hidden: '' });
    this.stage = make('div', { class: 'whatif-replay' }, [this.canvas, this.tip]);
    this.legend = make('div', { class: 'tl-legend' });
    this.table = make('details', { class: 'worst-cells' });
    this.element.replaceChildren(
      make('header', {}, [
        make('h2', {}, 'One step, with and without stragglers'), this.about,
        make('span', { class: 'whatif-controls' }, [
          ...(this.app.computes
            ? [button('‹', 'previous step', () => this.#turn(-1)), make('label', {}, ['step ', this.step]), button('›', 'next step', () => this.#turn(1)), this.replica]
            : []),
          button('+', 'Zoom in (W)', () => this.#zoom(CLOSER)), button('−', 'Zoom out (S)', () => this.#zoom(1 / CLOSER)),
          button('Fit', 'Fit the whole step (F)', () => this.#setWindow(null)),
        ]),
      ]),
      this.stage, this.legend, this.table,
      ...(this.app.computes ? [] : [make('p', { class: 'map-note' }, ONE_STEP)]));
    this.canvas.addEventListener('pointermove', (event) => this.#point(pointOn(this.canvas, event)));
    this.canvas.addEventListener('pointerleave', () => { this.tip.hidden = true; });
    this.canvas.addEventListener('wheel', (event) => this.#wheel(event), { passive: false });
    this.canvas.addEventListener('dblclick', () => this.#setWindow(null));
    this.canvas.addEventListener('keydown', (event) => this.#key(event));
  }

  /** The file has no room for the step. */
  showNothing() {
    this.element.replaceChildren(
      make('header', {}, make('h2', {}, 'One step, with and without stragglers')),
      make('p', { class: 'quiet' }, 'A step of this job takes more room than this file has; the live page replays it.'));
  }

  /** @param {Object} result numbers @param {import('./replay_lanes.mjs').Ops} ops */
  show(result, ops) {
    const isOther = this.ops?.meta.step !== ops.meta.step;
    Object.assign(this, { result, ops, window: isOther ? null : this.window });
    const { meta } = ops;
    this.step.value = String(meta.step);
    [this.step.min, this.step.max] = [result.steps[0], result.steps[result.steps.length - 1]].map(String);
    this.about.textContent = `step ${meta.step}: ${seconds(meta.T_base_s)} measured, ${seconds(meta.T_s)} replayed, ${seconds(meta.T_ideal_s)} without stragglers`;
    this.#showReplicas(meta);
    this.#showTable();
    this.canvas.setAttribute('aria-label', `Step ${meta.step} of ${meta.lanes.length} lanes as replayed, ${seconds(meta.T_s)}, above the same without stragglers, ${seconds(meta.T_ideal_s)}; the table below has the sums.`);
    this.draw();
  }

  /** View state that a link needs to show the same step. */
  state() {
    if (!this.ops) return {};
    const { step: replay, dp, lanes } = this.ops.meta;
    return dp === null ? { replay } : { replay, rank: this.app.view.rank ?? lanes[0].rank };
  }

  #showReplicas({ dp }) {
    const { S_dp: slow, rank } = this.result;
    this.replica.hidden = dp === null || slow.length < 2;
    if (this.replica.hidden) return;
    this.replica.replaceChildren(...slow.map((value, i) => make('option', { value: rank[0][i], selected: i === dp ? '' : null }, `dp rank ${i} · ${ratio(value)} x`)));
  }

  #showTable() {
    const pair = (row, name) => [row.real[name], row.ideal[name]].map((value) => make('td', { class: 'number' }, seconds(value)));
    const names = { forward: 'forward', backward: 'backward', comm: 'transfers', other: 'optimizer, gc', end: 'done after' };
    const heads = Object.values(names).flatMap((name) => [name, `${name}, ideal`]);
    this.table.replaceChildren(
      make('summary', {}, 'This step as a table'),
      make('div', { class: 'scroll' }, make('table', {}, [
        make('caption', { class: 'visually-hidden' }, `Step ${this.ops.meta.step} by rank, as replayed and ideal`),
        make('thead', {}, make('tr', {}, ['rank', 'stage', 'dp rank', ...heads].map((name) => make('th', { scope: 'col', class: 'number' }, name)))),
        make('tbody', {}, sums(this.ops).map((row) => make('tr', {}, [
          make('td', { class: 'number' }, rankLink(this.app, row.rank, cellRanks(row.ranks))), ...[row.stage, row.dp].map((text) => make('td', { class: 'number' }, String(text))),
          ...Object.keys(names).flatMap((name) => pair(row, name)),
        ]))),
      ])));
  }

  draw() {
    const width = this.stage.clientWidth;
    if (!this.ops || !width) return;
    const { meta } = this.ops;
    this.layout = layoutOf(meta.lanes.length, width);
    const ratioPx = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratioPx);
    this.canvas.height = Math.round(this.layout.height * ratioPx);
    this.canvas.style.height = `${this.layout.height}px`;
    this.context.setTransform(ratioPx, 0, 0, ratioPx, 0, 0);
    const theme = readTheme(this.element);
    this.drawn = draw(this.context, this.ops, this.layout, this.#shown(), theme);
    this.#showLegend(theme);
  }

  #showLegend(theme) {
    const kinds = new Set(Object.values(this.drawn).flat().map(({ kind }) => kind));
    this.legend.replaceChildren(...[...kinds].map((kind) => {
      const swatch = make('span', { class: `swatch${kind.endsWith('_comm') ? ' comm' : ''}` });
      swatch.style.setProperty('--c', kind === WAITING ? theme.ink.bubble : theme.kind[kind]);
      return make('span', {}, [swatch, kind === WAITING ? 'waiting for others' : LABEL_OF_KIND[kind]]);
    }));
  }

  /** The window of time in sight, s. */
  #shown() {
    return this.window ?? this.#whole();
  }

  #whole() {
    const { T_s: real, T_ideal_s: ideal } = this.ops.meta;
    return { begin: 0, end: 1.02 * Math.max(real, ideal) };
  }

  #setWindow(wanted) {
    if (!this.ops) return;
    const whole = this.#whole();
    const length = wanted ? Math.max(SHORTEST_S, wanted.end - wanted.begin) : Infinity;
    if (length >= whole.end) this.window = null;
    else {
      const begin = Math.min(Math.max(0, wanted.begin), whole.end - length);
      this.window = { begin, end: begin + length };
    }
    this.tip.hidden = true;
    this.draw();
  }

  #zoom(factor, at = null) {
    if (!this.ops) return;
    const { begin, end } = this.#shown();
    const centre = at ?? (begin + end) / 2;
    this.#setWindow({ begin: centre - (centre - begin) * factor, end: centre + (end - centre) * factor });
  }

  #pan(share) {
    if (!this.window) return;
    const by = share * (this.window.end - this.window.begin);
    this.#setWindow({ begin: this.window.begin + by, end: this.window.end + by });
  }

  #wheel(event) {
    if (!event.ctrlKey || !this.layout) return;
    event.preventDefault();
    this.#zoom(event.deltaY < 0 ? CLOSER : 1 / CLOSER, timeOf(this.layout, this.#shown(), pointOn(this.canvas, event).x));
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = {
      w: () => this.#zoom(CLOSER), s: () => this.#zoom(1 / CLOSER), a: () => this.#pan(-0.2), d: () => this.#pan(0.2),
      f: () => this.#setWindow(null), '[': () => this.#turn(-1), ']': () => this.#turn(1),
    }[event.key];
    if (!act || !this.ops || (!this.app.computes && '[]'.includes(event.key))) return;
    event.preventDefault();
    act();
  }

  #turn(by) {
    if (!this.ops) return;
    const index = this.result.steps.indexOf(this.ops.meta.step) + by;
    if (index >= 0 && index < this.result.steps.length) this.#go(this.result.steps[index]);
  }

  #go(step) {
    if (Number.isSafeInteger(step) && step >= 0) this.app.set({ replay: step });
  }

  #point(point) {
    if (!this.drawn) return;
    const place = placeAt(this.layout, point.y);
    const window = this.#shown();
    const slack = 2 * (window.end - window.begin) / this.layout.width;
    const piece = place && point.x >= this.layout.left
      ? pieceAt(this.drawn[place.world], place.lane, place.row, timeOf(this.layout, window, point.x), slack) : null;
    this.tip.hidden = !piece;
    if (!piece) return;
    this.tip.replaceChildren(...this.#lines(piece, place).map((text, i) => make(i ? 'div' : 'b', {}, text)));
    placeTip(this.tip, point, this.layout.width, this.layout.height);
  }

  #lines(piece, { world }) {
    const { arrays, meta: { optypes, lanes } } = this.ops;
    const [, , own] = WORLDS[world];
    const { ranks, stage } = lanes[piece.lane];
    const of = (name) => seconds(Math.max(0, arrays[name][piece.op]));
    const what = piece.kind === WAITING ? `waiting ${seconds(piece.end - piece.begin)} before it` : `takes ${of(own)}`;
    return [
      `${optypes[arrays.type[piece.op]]} ${arrays.seq[piece.op]}`, `stage ${stage}, ${ranksText(ranks)}; ${what}`,
      `own time: ${of('own_s')} as it ran, ${of('ideal_own_s')} ideal`,
    ];
  }
}
