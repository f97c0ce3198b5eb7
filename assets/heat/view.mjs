/**
 * Heat map of one metric: rank x step. mount(element, app, options); options: {compact, order, load}.
 * `load(app, request, signal)` returns HeatData and can be replaced (a shared file has no server).
 */
import { onTheme, readTheme } from '../lib/canvas/canvas_theme.mjs';
import { NO_DATA } from '../lib/canvas/colour.mjs';
import { showLegend } from '../lib/canvas/colour_legend.mjs';
import { isSoftwareGl } from '../lib/canvas/software_gl.mjs';
import { stepRange, xOfColumn } from '../lib/canvas/step_axis.mjs';
import { placeTip, pointOn } from '../lib/canvas/tooltip.mjs';
import { loadCulprits, NO_ROLES, rolesIn } from '../lib/culprits.mjs';
import { make } from '../lib/dom.mjs';
import { makeFetcher } from '../lib/fetcher.mjs';
import { metricOf } from '../lib/metric.mjs';
import { drawMap, drawMarks } from './draw.mjs';
import { blockAt, geometryOf, heatData, hostData, NO_RANK, zoomOf } from './geometry.mjs';
import { aboutMap, blockSentences, emptyMap, hatchingText } from './messages.mjs';
import { showWorst } from './worst_cells.mjs';

const REFETCH_MS = 1000;
const LOAD_CELL_MS = 60;
const DOUBLE_MS = 600;
const pickView = ({ rank, steps }) => ({ rank, steps });
const MAPS = {
  rank: 'rank × step', place: 'by pp, dp, tp', host: 'by host', hosts: 'host × rank',
};

const pair = (value) => value && `${Math.max(0, value[0])}..${Math.max(0, value[1])}`;

/** Load a map from the server; with `quick` only the newest steps of a large map, at once. */
export async function loadHeat(app, request, signal) {
  if (request.order === 'hosts') {
    const { metric, attempt, height } = request;
    const { finding } = app.view;
    return hostData(await app.arrays(
      app.api('ranks/hosts', { metric, attempt, height, finding, steps: pair(app.view.steps) }), signal));
  }
  const answer = await app.arrays(app.api('ranks/heat', {
    ...request, rows: pair(request.rows), steps: pair(request.steps),
  }), signal);
  return heatData(answer, request.order);
}

export function mount(element, app, options = {}) {
  const heat = new HeatView(element, app, options);
  return { destroy: () => heat.destroy() };
}

class HeatView {
  constructor(element, app, { compact = false, order = 'rank', load = loadHeat } = {}) {
    Object.assign(this, { element, app, compact, load });
    this.mapRequest = { order, rows: null, steps: null };
    this.theme = readTheme();
    this.shown = {};
    this.roles = NO_ROLES;
    this.software = isSoftwareGl();
    this.#build();
    this.stopTheme = onTheme(() => this.#restyle());
    this.stop = new AbortController();
    const { signal } = this.stop;
    app.addEventListener('view', () => this.#followView(), { signal });
    app.addEventListener('scope', () => this.#redraw(), { signal });
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
    clearTimeout(this.cellTimer);
    this.resizing.disconnect();
    this.stop.abort();
    this.stopTheme();
  }

  #build() {
    this.element.classList.toggle('compact', this.compact);
    this.title = make('h2', {}, 'Heat map');
    this.about = make('span', { class: 'quiet' });
    this.order = make('select', { 'aria-label': 'what the rows and columns are' },
      Object.entries(MAPS).map(([value, text]) => make('option', { value }, text)));
    this.order.value = this.mapRequest.order;
    this.order.addEventListener('change', () => this.#load({ order: this.order.value, rows: null, steps: null }));
    this.reset = make('button', { hidden: '' }, 'whole map');
    this.reset.addEventListener('click', () => this.#load({ rows: null, steps: null }));
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
    this.announcement = make('div', { class: 'visually-hidden', 'aria-live': 'polite' });
    this.element.replaceChildren(
      make('div', { class: 'map-head' }, [this.title, this.about, make('div', { class: 'controls' }, [this.order, this.reset])]),
      this.stage, this.foot, this.worst, this.announcement);
    [this.context, this.pen] = [this.canvas, this.overlay]
      .map((canvas) => canvas.getContext('2d', { willReadFrequently: this.software }));
    this.#listen();
  }

  #listen() {
    const pointOf = (event) => pointOn(this.canvas, event);
    this.canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0 || !this.data) return;
      if (event.pointerType === 'mouse') this.canvas.setPointerCapture(event.pointerId);
      this.shown.drag = { from: pointOf(event), to: pointOf(event) };
    });
    this.canvas.addEventListener('pointermove', (event) => {
      if (!this.data) return;
      const point = pointOf(event);
      if (this.shown.drag) this.shown.drag.to = point;
      else this.#hover(point);
      this.#redraw();
    });
    this.canvas.addEventListener('pointerup', (event) => {
      const { drag } = this.shown;
      this.shown.drag = null;
      if (!drag || !this.data) return;
      const zoom = zoomOf(this.data, this.geometry, drag.from, pointOf(event));
      if (zoom) this.#load(zoom);
      else {
        if (event.timeStamp - (this.clickedAt ?? -Infinity) > DOUBLE_MS) this.viewBeforeClicks = pickView(this.app.view);
        this.clickedAt = event.timeStamp;
        this.#select(blockAt(this.data, this.geometry, drag.from.x, drag.from.y));
      }
      this.#redraw();
    });
    this.canvas.addEventListener('pointercancel', () => { this.shown.drag = null; });
    this.canvas.addEventListener('pointerleave', () => this.#hover(null));
    this.canvas.addEventListener('dblclick', () => {
      if (this.viewBeforeClicks) this.app.set(this.viewBeforeClicks);  // undo what the two clicks have selected
      this.#load({ rows: null, steps: null });
    });
    this.canvas.addEventListener('keydown', (event) => this.#key(event));
  }

  /** Arrows move the marked block, Enter opens it in the timeline, Escape shows the whole map. */
  #key(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === 'Escape') this.#load({ rows: null, steps: null });
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
    const brushed = this.mapRequest.order === 'hosts' ? steps : this.data?.isCut && this.#brushedSteps();
    return JSON.stringify([run, attempt, metric, finding, brushed]);
  }

  /** Steps that the user brushed: a map too large for all steps shows these. A click on a cell does not count. */
  #brushedSteps() {
    const { steps } = this.app.view;
    if (!steps || steps[1] > steps[0]) this.brushedSteps = steps;
    return this.brushedSteps ?? null;
  }

  #followView() {
    const key = this.#viewKey();
    if (key !== this.key) {
      this.key = key;
      this.fetcher.soon();  // brushing sends many changes
    }
    this.#redraw();
  }

  #load(patch) {
    Object.assign(this.mapRequest, patch);
    this.key = this.#viewKey();
    this.reset.hidden = !this.mapRequest.rows && !this.mapRequest.steps;
    this.#hover(null);
    this.fetcher.now();
  }

  async #fetch(signal) {
    if (!this.geometry) return;
    this.#loadCulprits(signal);
    try {
      const { plot } = this.geometry;
      const request = this.sentRequest = {
        ...this.mapRequest, metric: await metricOf(this.app), attempt: this.app.view.attempt, near: pair(this.#brushedSteps()),
        width: Math.max(1, Math.round(plot.w)), height: Math.max(1, Math.round(plot.h)),
      };
      const quick = request.rows || request.steps || this.data ? null : 1;
      const first = await this.load(this.app, { ...request, quick }, signal);
      if (!signal.aborted && !(first.isPart && this.data)) this.#show(first);
      if (first.isPart) {
        const whole = await this.load(this.app, request, signal);
        if (!signal.aborted) this.#show(whole);
      }
    } catch (error) {
      if (error.name !== 'AbortError') this.#fail(error.message);
    }
  }

  async #loadCulprits(signal) {
    try {
      this.roles = await loadCulprits(this.app, signal);
      this.#showKey();
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
    this.#showKey();
    this.worst.hidden = this.compact || data.kind === 'hosts' || data.isPart || empty !== '';
    if (!this.worst.hidden) showWorst(this.worst, this.app, data, this.sentRequest);
  }

  /** Who is judged in the steps on screen. */
  #rolesShown() {
    const { data } = this;
    if (data.kind === 'hosts') return rolesIn(this.roles, data.allSteps ?? null);
    return rolesIn(this.roles, data.width ? stepRange(data) : null);
  }

  /** Explains the signs next to rows and the hatching, if there are any. */
  #showKey() {
    if (!this.data) return;
    const { culprits, victims } = this.#rolesShown();
    const marks = [[culprits.length, make('span', { class: 'fault' }, '\u25C0 '), 'culprit'],
      [victims.length, make('span', {}, '\u25C1 '), 'waits for it'],
      [this.data.code.includes(NO_DATA), make('i', { class: 'missing' }), hatchingText(this.data)]];
    this.keyLine.replaceChildren(...marks.filter(([isPresent]) => isPresent)
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
    return this.mapRequest.order.startsWith('host') ? 92 : 58;
  }

  #drawMap() {
    if (this.data && this.geometry) drawMap(this.context, this.data, this.geometry, this.theme);
  }

  /** Draw the marks over the map on the next frame. */
  #redraw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      if (!this.data || !this.geometry) return;
      const { rank, steps } = this.app.view;
      this.pen.clearRect(0, 0, this.geometry.width, this.geometry.height);
      const { culprits, victims, steps: faultSteps } = this.#rolesShown();
      drawMarks(this.pen, this.data, this.geometry, this.theme, { ...this.shown, culprits, victims, faultSteps, rank, steps: this.app.scope?.steps ?? steps });
    });
  }

  #select(block) {
    if (!block) return;
    this.canvas.focus({ preventScroll: true });
    const cell = this.cell?.blockKey === this.#blockKey(block) ? this.cell.cell : null;
    const rank = cell?.rank ?? block.ranks[0];
    if (this.data.kind === 'hosts') {
      if (rank !== NO_RANK) this.app.set({ rank });
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
    return `${this.mapRequest.order}/${this.data.window}/${block.rows}/${block.steps}/${this.key}`;
  }

  #hover(point) {
    const block = point && blockAt(this.data, this.geometry, point.x, point.y);
    this.shown.hover = block;
    this.tip.hidden = !block;
    clearTimeout(this.cellTimer);
    if (!block) return this.#redraw();
    this.#describe(block, this.#knownCell(block), point);
    if (block.code !== NO_DATA && this.data.kind === 'steps' && !this.#knownCell(block)) {
      this.cellTimer = setTimeout(() => this.#loadCell(block, point), LOAD_CELL_MS);
    }
  }

  /** The cell of a block if it came with the map or was loaded before. */
  #knownCell(block) {
    const { data } = this;
    if (data.value) {
      const index = block.row * data.width + block.column;
      return { rank: block.ranks[0], step: block.steps[0], value: data.value[index], peers_ms: data.peers[index] };
    }
    return this.cell?.blockKey === this.#blockKey(block) ? this.cell.cell : null;
  }

  async #loadCell(block, point) {
    this.cellRequest?.abort();
    this.cellRequest = new AbortController();
    const { metric, attempt, order } = this.sentRequest;
    const [first] = this.data.window;
    try {
      const cell = await this.app.json(this.app.api('ranks/cell', {
        metric, attempt, order,
        rows: `${first + block.rows[0]}..${first + block.rows[1]}`, steps: `${block.steps[0]}..${block.steps[1]}`,
      }), this.cellRequest.signal);
      this.cell = { blockKey: this.#blockKey(block), cell };
      if (this.shown.hover === block) this.#describe(block, cell, point);
    } catch { /* the pointer has moved on, or the cell has no data */ }
  }

  #describe(block, cell, point) {
    const [first, ...rest] = blockSentences(this.data, block, cell);
    this.tip.replaceChildren(make('b', {}, first), ...rest.map((text) => make('div', {}, text)));
    if (point.byKey) this.announcement.textContent = [first, ...rest].join(', ');
    placeTip(this.tip, point, this.geometry.width, this.geometry.height);
  }
}
