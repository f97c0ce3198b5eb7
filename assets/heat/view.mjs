/**
 * Heat map of one metric: rank x step. mount(element, app, options); options: {compact, order, load}.
 * `load(app, asked, signal)` answers with HeatData and may be replaced (a shared page has no server).
 */
import { onTheme, readTheme } from '../lib/canvas/canvas_theme.mjs';
import { NO_DATA } from '../lib/canvas/colour.mjs';
import { showLegend } from '../lib/canvas/colour_legend.mjs';
import { isSoftwareGl } from '../lib/canvas/software_gl.mjs';
import { xOfColumn } from '../lib/canvas/step_axis.mjs';
import { placeTip, pointOn } from '../lib/canvas/tooltip.mjs';
import { accused } from '../lib/culprits.mjs';
import { make } from '../lib/dom.mjs';
import { makeFetcher } from '../lib/fetcher.mjs';
import { metricOf } from '../lib/metric.mjs';
import { drawMap, drawMarks } from './draw.mjs';
import { blockAt, geometryOf, heatData, hostData, NOBODY, zoomOf } from './geometry.mjs';
import { aboutMap, blockSentences, emptyMap } from './messages.mjs';
import { showWorst } from './worst_cells.mjs';

const REFETCH_MS = 1000;
const ASK_CELL_MS = 60;
const DOUBLE_MS = 600;
const pickView = ({ rank, steps }) => ({ rank, steps });
const MAPS = {
  rank: 'rank × step', place: 'by pp, dp, tp', host: 'by host', hosts: 'host × rank',
};

const pair = (value) => value && `${Math.max(0, value[0])}..${Math.max(0, value[1])}`;

/** Ask the server for a map; `quick`: at once, where it is large only its newest steps. */
export async function loadHeat(app, asked, signal) {
  if (asked.order === 'hosts') {
    const { metric, attempt, height } = asked;
    return hostData(await app.arrays(
      app.api('ranks/hosts', { metric, attempt, height, steps: pair(app.view.steps) }), signal));
  }
  const answer = await app.arrays(app.api('ranks/heat', {
    ...asked, rows: pair(asked.rows), steps: pair(asked.steps),
  }), signal);
  return heatData(answer, asked.order);
}

export function mount(element, app, options = {}) {
  const heat = new HeatView(element, app, options);
  return { destroy: () => heat.destroy() };
}

class HeatView {
  constructor(element, app, { compact = false, order = 'rank', load = loadHeat } = {}) {
    Object.assign(this, { element, app, compact, load });
    this.asked = { order, rows: null, steps: null };
    this.theme = readTheme();
    this.shown = { culprits: [], victims: [] };
    this.software = isSoftwareGl();
    this.#build();
    this.endTheme = onTheme(() => this.#restyle());
    this.stop = new AbortController();
    const { signal } = this.stop;
    app.addEventListener('view', () => this.#followView(), { signal });
    this.fetcher = makeFetcher((signal) => this.#fetch(signal), REFETCH_MS);
    app.addEventListener('run', () => this.fetcher.news(), { signal });
    this.resizing = new ResizeObserver(() => this.#resize());
    this.resizing.observe(this.stage);
    this.key = this.#viewKey();
  }

  destroy() {
    this.fetcher.stop();
    this.cellRequest?.abort();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.askTimer);
    clearTimeout(this.keyTimer);
    this.resizing.disconnect();
    this.stop.abort();
    this.endTheme();
  }

  #build() {
    this.element.classList.toggle('compact', this.compact);
    this.title = make('h2', {}, 'Heat map');
    this.about = make('span', { class: 'quiet' });
    this.order = make('select', { 'aria-label': 'what the rows and columns are' },
      Object.entries(MAPS).map(([value, text]) => make('option', { value }, text)));
    this.order.value = this.asked.order;
    this.order.addEventListener('change', () => this.#ask({ order: this.order.value, rows: null, steps: null }));
    this.reset = make('button', { hidden: '' }, 'whole map');
    this.reset.addEventListener('click', () => this.#ask({ rows: null, steps: null }));
    this.canvas = make('canvas', {
      tabindex: '0', role: 'img', 'aria-label': 'Heat map of ranks and steps; the table below has its worst cells',
    });
    this.tip = make('div', { class: 'map-tip', hidden: '' });
    this.veil = make('div', { class: 'veil', role: 'status' }, 'Loading the heat map.');
    this.overlay = make('canvas', { class: 'overlay', 'aria-hidden': 'true' });
    this.stage = make('div', { class: 'map-stage' }, [this.canvas, this.overlay, this.veil, this.tip]);
    this.legend = make('div', { class: 'map-legend' });
    this.keyLine = make('div', { class: 'groups-key' });
    this.foot = make('div', { class: 'map-foot' }, [this.legend, this.keyLine]);
    this.worst = make('details', { class: 'worst-cells', hidden: '' });
    this.said = make('div', { class: 'visually-hidden', 'aria-live': 'polite' });
    this.element.replaceChildren(
      make('div', { class: 'map-head' }, [this.title, this.about, make('div', { class: 'controls' }, [this.order, this.reset])]),
      this.stage, this.foot, this.worst, this.said);
    [this.context, this.pen] = [this.canvas, this.overlay]
      .map((canvas) => canvas.getContext('2d', { willReadFrequently: this.software }));
    this.#hands();
  }

  #hands() {
    const at = (event) => pointOn(this.canvas, event);
    this.canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0 || !this.data) return;
      if (event.pointerType === 'mouse') this.canvas.setPointerCapture(event.pointerId);
      this.shown.drag = { from: at(event), to: at(event) };
    });
    this.canvas.addEventListener('pointermove', (event) => {
      if (!this.data) return;
      const point = at(event);
      if (this.shown.drag) this.shown.drag.to = point;
      else this.#hover(point);
      this.#redraw();
    });
    this.canvas.addEventListener('pointerup', (event) => {
      const { drag } = this.shown;
      this.shown.drag = null;
      if (!drag || !this.data) return;
      const zoom = zoomOf(this.data, this.geometry, drag.from, at(event));
      if (zoom) this.#ask(zoom);
      else {
        if (event.timeStamp - (this.clickedAt ?? -Infinity) > DOUBLE_MS) this.before = pickView(this.app.view);
        this.clickedAt = event.timeStamp;
        this.#select(blockAt(this.data, this.geometry, drag.from.x, drag.from.y));
      }
      this.#redraw();
    });
    this.canvas.addEventListener('pointercancel', () => { this.shown.drag = null; });
    this.canvas.addEventListener('pointerleave', () => this.#hover(null));
    this.canvas.addEventListener('dblclick', () => {
      if (this.before) this.app.set(this.before);  // what its two clicks had selected
      this.#ask({ rows: null, steps: null });
    });
    this.canvas.addEventListener('keydown', (event) => this.#key(event));
  }

  /** Arrows move the pointed block, Enter opens it in the timeline, Escape shows the whole map. */
  #key(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === 'Escape') this.#ask({ rows: null, steps: null });
    else if (event.key === 'Enter') this.#open();
    else if (moves[event.key] && this.data?.width) this.#move(...moves[event.key]);
    else return;
    event.preventDefault();
  }

  #move(down, right) {
    const { data, geometry: { plot } } = this;
    const { row = 0, column = data.width - 1 } = this.shown.hover ?? {};
    const [toRow, toColumn] = [row + down, column + right];
    if (toRow < 0 || toRow >= data.height || toColumn < 0 || toColumn >= data.width) return;
    const middle = (edges, i) => (edges[i] + edges[i + 1]) / 2;
    this.#hover({
      byKey: true, x: xOfColumn(data, this.geometry, middle(data.columns, toColumn)),
      y: plot.y + plot.h * middle(data.rows, toRow) / data.rank.length,
    });
    this.#redraw();
  }

  #viewKey() {
    const { run, attempt, metric, finding, steps } = this.app.view;
    const brushed = this.asked.order === 'hosts' ? steps : this.data?.isCut && this.#near();
    return JSON.stringify([run, attempt, metric, finding, brushed]);
  }

  /** Steps that were brushed, those a map too large for all of them shows; a click on a cell is no brush. */
  #near() {
    const { steps } = this.app.view;
    if (!steps || steps[1] > steps[0]) this.brushed = steps;
    return this.brushed ?? null;
  }

  #followView() {
    const key = this.#viewKey();
    if (key !== this.key) {
      this.key = key;
      clearTimeout(this.keyTimer);
      this.keyTimer = setTimeout(() => this.fetcher.now(), 80);  // brushing comes as a stream
    }
    this.#redraw();
  }

  #ask(patch) {
    Object.assign(this.asked, patch);
    this.key = this.#viewKey();
    this.reset.hidden = !this.asked.rows && !this.asked.steps;
    this.#hover(null);
    this.fetcher.now();
  }

  async #fetch(signal) {
    if (!this.geometry) return;
    this.#accuse(signal);
    try {
      const { plot } = this.geometry;
      const asked = this.sent = {
        ...this.asked, metric: await metricOf(this.app), attempt: this.app.view.attempt, near: pair(this.#near()),
        width: Math.max(1, Math.round(plot.w)), height: Math.max(1, Math.round(plot.h)),
      };
      const quick = asked.rows || asked.steps || this.data ? null : 1;
      const first = await this.load(this.app, { ...asked, quick }, signal);
      if (!signal.aborted && !(first.isPart && this.data)) this.#show(first);
      if (first.isPart) {
        const whole = await this.load(this.app, asked, signal);
        if (!signal.aborted) this.#show(whole);
      }
    } catch (error) {
      if (error.name !== 'AbortError') this.#fail(error.message);
    }
  }

  async #accuse(signal) {
    try {
      Object.assign(this.shown, await accused(this.app, signal));
      this.#keys();
      this.#redraw();
    } catch { /* superseded */ }
  }

  #show(data) {
    this.data = data;
    this.geometry = geometryOf(this.geometry.width, this.geometry.height, { rowLabel: this.#rowLabel() });
    const { metric } = data.legend;
    this.title.textContent = `${metric.title}, ${data.kind === 'hosts' ? 'host × rank in host' : 'rank × step'}`;
    this.about.textContent = aboutMap(data);
    const empty = emptyMap(data);
    this.veil.textContent = empty;
    this.veil.classList.remove('failed');
    this.veil.hidden = empty === '';
    this.#restyle();
    this.foot.hidden = empty !== '';
    this.#keys();
    this.worst.hidden = this.compact || data.kind === 'hosts' || data.isPart || empty !== '';
    if (!this.worst.hidden) showWorst(this.worst, this.app, data, this.sent);
  }

  /** The signs beside rows, and what hatching means, where there are any. */
  #keys() {
    if (!this.data) return;
    const { culprits, victims } = this.shown;
    const marks = [[culprits.length, make('span', { class: 'fault' }, '\u25C0 '), 'culprit'],
      [victims.length, make('span', { class: 'fault' }, '\u25C1 '), 'waits for it'],
      [this.data.code.includes(NO_DATA), make('i', { class: 'missing' }), 'not recorded']];
    this.keyLine.replaceChildren(...marks.filter(([there]) => there)
      .map(([, sign, text]) => make('span', {}, [sign, text])));
  }

  #fail(sentence) {
    this.veil.hidden = false;
    this.veil.classList.add('failed');
    this.veil.textContent = sentence;
  }

  #restyle() {
    this.theme = readTheme();
    if (!this.data) return;
    showLegend(this.legend, this.data.legend, this.theme);
    this.#drawMap();
    this.#redraw();
  }

  #resize() {
    const { clientWidth: width, clientHeight: height } = this.stage;
    if (!width || !height) return;
    const scale = window.devicePixelRatio || 1;
    for (const context of [this.context, this.pen]) {
      context.canvas.width = Math.round(width * scale);
      context.canvas.height = Math.round(height * scale);
      context.setTransform(scale, 0, 0, scale, 0, 0);
    }
    const isFirst = !this.geometry;
    this.geometry = geometryOf(width, height, { rowLabel: this.#rowLabel() });
    if (isFirst) this.fetcher.now();
    else this.fetcher.news();
    this.#drawMap();
    this.#redraw();
  }

  #rowLabel() {
    return this.asked.order.startsWith('host') ? 92 : 58;
  }

  #drawMap() {
    if (this.data && this.geometry) drawMap(this.context, this.data, this.geometry, this.theme);
  }

  /** What lies over the map, on the next frame. */
  #redraw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      if (!this.data || !this.geometry) return;
      const { rank, steps } = this.app.view;
      this.pen.clearRect(0, 0, this.geometry.width, this.geometry.height);
      drawMarks(this.pen, this.data, this.geometry, this.theme, { ...this.shown, rank, steps });
    });
  }

  #select(block) {
    if (!block) return;
    this.canvas.focus({ preventScroll: true });
    const cell = this.cell?.block === this.#blockKey(block) ? this.cell.cell : null;
    const rank = cell?.rank ?? block.ranks[0];
    if (this.data.kind === 'hosts') {
      if (rank !== NOBODY) this.app.set({ rank });
      return;
    }
    const step = cell?.step ?? block.steps[0];
    this.app.set({ rank, steps: [step, step] });
  }

  #open() {
    const block = this.shown.hover;
    if (!block) return;
    this.#select(block);
    this.app.open({ page: 'timeline' });
  }

  #blockKey(block) {
    return `${this.asked.order}/${this.data.window}/${block.rows}/${block.steps}/${this.key}`;
  }

  #hover(point) {
    const block = point && blockAt(this.data, this.geometry, point.x, point.y);
    this.shown.hover = block;
    this.tip.hidden = !block;
    clearTimeout(this.askTimer);
    if (!block) return this.#redraw();
    this.#describe(block, this.#known(block), point);
    if (block.code !== NO_DATA && this.data.kind === 'steps' && !this.#known(block)) {
      this.askTimer = setTimeout(() => this.#askCell(block, point), ASK_CELL_MS);
    }
  }

  /** The cell of a block where it came with the map or was asked before. */
  #known(block) {
    const { data } = this;
    if (data.value) {
      const at = block.row * data.width + block.column;
      return { rank: block.ranks[0], step: block.steps[0], value: data.value[at], peers_ms: data.peers[at] };
    }
    return this.cell?.block === this.#blockKey(block) ? this.cell.cell : null;
  }

  async #askCell(block, point) {
    this.cellRequest?.abort();
    this.cellRequest = new AbortController();
    const { metric, attempt, order } = this.sent;
    const [first] = this.data.window;
    try {
      const cell = await this.app.json(this.app.api('ranks/cell', {
        metric, attempt, order,
        rows: `${first + block.rows[0]}..${first + block.rows[1]}`, steps: `${block.steps[0]}..${block.steps[1]}`,
      }), this.cellRequest.signal);
      this.cell = { block: this.#blockKey(block), cell };
      if (this.shown.hover === block) this.#describe(block, cell, point);
    } catch { /* the pointer has moved on, or there is nothing to say */ }
  }

  #describe(block, cell, point) {
    const [first, ...rest] = blockSentences(this.data, block, cell);
    this.tip.replaceChildren(make('b', {}, first), ...rest.map((text) => make('div', {}, text)));
    if (point.byKey) this.said.textContent = [first, ...rest].join(', ');
    placeTip(this.tip, point, this.geometry.width, this.geometry.height);
  }
}
