/**
 * The 3D grid of ranks. mount(element, app, options); options: {compact, load}.
 * `load(app, signal)` returns {places, layout} and `loadValues(app, signal)` one byte per rank; both can
 * be replaced (a shared file has no server).
 */
import { onTheme, readTheme } from '../lib/canvas/canvas_theme.mjs';
import { colourTable, NO_DATA } from '../lib/canvas/colour.mjs';
import { showLegend } from '../lib/canvas/colour_legend.mjs';
import { isSoftwareGl } from '../lib/canvas/software_gl.mjs';
import { placeTip } from '../lib/canvas/tooltip.mjs';
import { loadCulprits, NO_ROLES, rolesShown } from '../lib/culprits.mjs';
import { make } from '../lib/dom.mjs';
import { makeFetcher } from '../lib/fetcher.mjs';
import { metricOf } from '../lib/metric.mjs';
import { loadStandings } from '../lib/standings.mjs';
import { stepsText } from '../lib/value_text.mjs';
import { aim, makeCamera, pick } from './camera.mjs';
import { FlatRenderer } from './flat_renderer.mjs';
import { drawLabels } from './labels.mjs';
import { coordinateIndex, markRanks, neighbour, outlinedVictims, place } from './layout.mjs';
import { rankSentences } from './messages.mjs';
import { listenToPointer } from './pointer.mjs';
import { makeRenderer } from './webgl_renderer.mjs';

const REFETCH_MS = 1000;
const TURN = 0.006;  // radians per pixel
const NEAREST = 40;
const SMOOTH_UP_TO = 1024;  // ranks drawn with smooth edges where there is no GPU

/** Load ranks, coordinates and hosts from the server. */
export async function loadLayout(app, signal) {
  const { arrays, meta } = await app.arrays(app.api('ranks/layout', { attempt: app.view.attempt }), signal);
  return { places: arrays, layout: meta };
}

/** Load one value per rank from the server. */
export async function loadValues(app, signal) {
  const { attempt, steps, finding } = app.view;
  const { arrays, meta } = await app.arrays(app.api('ranks/grid', {
    attempt, metric: await metricOf(app), finding, steps: steps && `${Math.max(0, steps[0])}..${Math.max(0, steps[1])}`,
  }), signal);
  return { ...arrays, ...meta };
}

export function mount(element, app, options = {}) {
  const grid = new GridView(element, app, options);
  return { destroy: () => grid.destroy() };
}

class GridView {
  constructor(element, app, { compact = false, load = loadLayout, values = loadValues } = {}) {
    Object.assign(this, { element, app, compact, load, loadValues: values });
    this.#setRoles(NO_ROLES);
    this.#build();
    this.#listen();
    this.stopTheme = onTheme(() => this.#restyle());
    this.stop = new AbortController();
    const { signal } = this.stop;
    this.fetcher = makeFetcher((signal) => this.#fetch(signal), REFETCH_MS);
    app.addEventListener('view', () => this.#followView(), { signal });
    app.addEventListener('run', () => {
      this.layoutKey = null;
      this.fetcher.news();
    }, { signal });
    this.resizing = new ResizeObserver(() => this.#resize());
    this.resizing.observe(this.stage);
    this.key = this.#viewKey();
    this.fetcher.now();
  }

  destroy() {
    this.fetcher.stop();
    cancelAnimationFrame(this.frame);
    this.resizing.disconnect();
    this.stop.abort();
    this.stopTheme();
    this.renderer?.destroy();
  }

  #build() {
    this.element.classList.toggle('compact', this.compact);
    this.title = make('h2', {}, 'Grid of ranks');
    this.about = make('span', { class: 'quiet' });
    this.resetButton = make('button', { title: 'Back to the first view (0)' }, 'Reset view');
    this.resetButton.addEventListener('click', () => this.#firstView());
    this.canvas = make('canvas', {
      tabindex: '0', role: 'img', 'aria-roledescription': 'grid of ranks', 'aria-describedby': 'rank-table',
      'aria-label': 'Grid of ranks',
    });
    this.overlay = make('canvas', { class: 'overlay', 'aria-hidden': 'true' });
    this.tip = make('div', { class: 'map-tip', hidden: '' });
    this.veil = make('div', { class: 'veil', role: 'status' }, 'Loading the ranks.');
    this.stage = make('div', { class: 'map-stage' }, [this.canvas, this.overlay, this.veil, this.tip]);
    this.legend = make('div', { class: 'map-legend' });
    this.keyLine = make('div', { class: 'groups-key' });
    this.foot = make('div', { class: 'map-foot' }, [this.legend, this.keyLine]);
    this.note = make('p', { class: 'map-note', hidden: '' });
    this.announcement = make('div', { class: 'visually-hidden', 'aria-live': 'polite' });
    this.element.replaceChildren(
      make('div', { class: 'map-head' }, [this.title, this.about, make('div', { class: 'controls' }, [this.resetButton])]),
      this.stage, this.foot, this.note, this.announcement);
    this.pen = this.overlay.getContext('2d', { willReadFrequently: isSoftwareGl() });
    this.theme = readTheme();
    this.state = { theme: this.theme, selected: -1, hover: -1, culprits: [] };
  }

  #viewKey() {
    const { run, attempt, metric, steps, finding } = this.app.view;
    return JSON.stringify([run, attempt, metric, steps, finding]);
  }

  #followView() {
    const key = this.#viewKey();
    if (key !== this.key) {
      this.key = key;
      this.fetcher.soon();  // brushing sends many changes
    }
    this.#mark();
  }

  async #fetch(signal) {
    try {
      const findings = loadCulprits(this.app, signal);
      const standings = loadStandings(this.app, signal);
      for (const asked of [findings, standings]) asked.catch(() => {});
      const { run, attempt } = this.app.view;
      const layoutKey = `${run}/${attempt}`;
      const [layout, values] = await Promise.all([  // the layout is loaded again only after new data
        this.layoutKey === layoutKey ? null : this.load(this.app, signal), this.loadValues(this.app, signal),
      ]);
      if (signal.aborted) return;
      if (layout) this.#place(layout);
      this.layoutKey = layoutKey;
      this.#show(values);
      this.#setRoles(rolesShown(await findings, this.app.view, this.values.steps));
      this.state.culprits = [...this.roles.culprits];
      this.standings = await standings;
      this.#showKey();
      this.#mark();
    } catch (error) {
      if (error.name !== 'AbortError') this.#showMessage(error.message, true);
    }
  }

  #setRoles({ culprits, victims }) {
    this.roles = { culprits: new Set(culprits), victims: new Set(victims) };
  }

  /** Camera and selection stay as they are if the ranks are the same. */
  #place({ places, layout }) {
    const same = this.places && this.places.rank.length === places.rank.length
      && JSON.stringify(this.layout.axes) === JSON.stringify(layout.axes) && this.layout.reason === layout.reason;
    this.places = places;
    this.layout = layout;
    if (same) return;
    this.placed = place(places, layout);
    this.index = coordinateIndex(places);
    this.rankIndex = new Map(Array.from(places.rank, (rank, i) => [rank, i]));
    this.radius = Math.hypot(...this.placed.size) / 2;
    this.flags = new Uint8Array(places.rank.length);
    this.margin = this.placed.flat ? MARGIN_FLAT : this.placed.sideBySide ? MARGIN_SIDE_BY_SIDE : MARGIN;
    this.camera = makeCamera(this.placed);
    Object.assign(this.state, { camera: this.camera, ranks: places.rank, places });
    if (!this.renderer) {
      this.renderer = makeRenderer(this.canvas, !isSoftwareGl() || places.rank.length <= SMOOTH_UP_TO);
      this.isFlat = this.renderer === null;
      this.renderer ??= new FlatRenderer(this.canvas);
    }
    this.renderer.setPositions(this.placed.positions);
    this.state.hover = -1;
    this.marks = null;
  }

  /** Says below the picture what it cannot show. */
  #showNotes() {
    const notes = [!this.values.steps && this.values.nothing, this.layout.reason,
      this.isFlat && 'This browser has no WebGL2, so the ranks are drawn as flat blocks.'];
    this.note.textContent = notes.filter(Boolean).join(' ');
    this.note.hidden = this.note.textContent === '';
  }

  #show(values) {
    this.values = values;
    const { metric } = values.legend;
    const { steps, page_steps: pageSteps } = values;
    this.app.showScope?.(pageSteps && { steps: pageSteps, why: values.why });
    const count = this.places.rank.length;
    const many = `${count.toLocaleString('en')} rank${count === 1 ? '' : 's'}`;
    this.title.textContent = steps ? `${metric.title} by rank` : 'Grid of ranks';
    this.about.textContent = steps ? `${many}, ${stepsText(steps)}` : many;
    this.#showMessage(!count ? 'No rank has reported in this attempt.'
      : steps && values.nothing ? values.nothing : '');
    this.foot.hidden = this.veil.textContent !== '';
    this.legend.hidden = !steps;
    this.#showNotes();
    this.renderer.setCodes(values.code);
    this.#showKey();
    this.#restyle();
    this.#mark();
    this.#label();
  }

  #showMessage(sentence, failed = false) {
    this.veil.textContent = sentence;
    this.veil.hidden = sentence === '';
    this.veil.classList.toggle('failed', failed);
  }

  #showKey() {
    const { axes } = this.layout;
    const sizes = { ...axes, ...this.layout.experts };
    const groups = ['tp', 'pp', 'dp', 'ep'].filter((name) => sizes[name] > 1)
      .map((name) => [name, `${name.toUpperCase()} group`]);
    const { culprits, victims } = this.roles;
    const marks = [[culprits, 'culprit', 'culprit'], [outlinedVictims(victims), 'victim', culprits.size ? 'waits for it' : 'waits']]
      .filter(([ranks]) => ranks.size).map(([, name, text]) => [name, text]);
    const hidden = victims.size - outlinedVictims(victims).size;
    if (hidden) marks.push(['', `${hidden.toLocaleString('en')} ranks wait${culprits.size ? ' for it' : ''}`]);
    if (this.values.steps && this.values.code.includes(NO_DATA)) marks.push(['missing', 'not recorded']);
    const shown = this.layout.reason || this.state.selected < 0 ? marks : [...marks, ...groups];
    this.keyLine.replaceChildren(...shown.map(([name, text]) => {
      if (!name) return make('span', {}, text);
      const sign = make('i', { class: name });
      if (['tp', 'pp', 'dp', 'ep'].includes(name)) sign.style.borderTopColor = `var(--${name})`;
      return make('span', {}, [sign, text]);
    }));
  }

  #restyle() {
    this.theme = readTheme();
    this.state.theme = this.theme;
    if (!this.values) return;
    this.renderer.setTheme(colourTable(this.theme), this.theme);
    showLegend(this.legend, this.values.legend, this.theme);
    this.#redraw();
  }

  #mark() {
    if (!this.placed) return;
    this.state.selected = this.rankIndex.get(this.app.view.rank) ?? -1;
    const marks = `${this.state.selected}/${[...this.roles.culprits]}/${[...this.roles.victims]}/${this.placed.size}`;
    if (marks === this.marks) return;
    this.marks = marks;
    markRanks(this.flags, this.places, this.state.selected, this.roles.culprits, outlinedVictims(this.roles.victims));
    this.renderer.setFlags(this.flags);
    if (this.values) this.#showKey();
    this.#label();
    this.#redraw();
  }

  #label() {
    const { selected } = this.state;
    const text = selected < 0 || !this.values ? 'no rank selected' : rankSentences(selected, this).join(', ');
    if (text === this.labelled) return;
    this.labelled = text;
    this.canvas.setAttribute('aria-label', `Grid of ${this.places.rank.length} ranks; ${text}. Arrow left and right: data `
      + 'parallel, up and down: pipeline stage, with shift: tensor parallel; Enter opens the timeline.');
    if (selected >= 0 && document.activeElement === this.canvas) this.announcement.textContent = text;
  }

  #resize() {
    const { clientWidth: width, clientHeight: height } = this.stage;
    if (!width || !height) return;
    const scale = window.devicePixelRatio || 1;
    for (const canvas of [this.canvas, this.overlay]) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.size = [width, height];
    this.#redraw(true);
  }

  /** Draw once, on the next frame, or at once with `now`: a resized canvas is blank until it is drawn. */
  #redraw(now = false) {
    cancelAnimationFrame(this.frame);
    if (now) this.#draw();
    else this.frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    if (!this.values || !this.size) return;
    aim(this.camera, this.placed.size, this.size[0], this.size[1], this.margin);
    this.renderer.draw(this.camera, this.radius);
    drawLabels(this.pen, this.placed, this.state);
  }

  #firstView() {
    if (!this.camera) return;
    const { yaw, pitch } = makeCamera(this.placed);
    Object.assign(this.camera, { yaw, pitch, zoom: 1, panX: 0, panY: 0 });
    this.#redraw();
  }

  #listen() {
    this.canvas.style.touchAction = this.compact ? 'pan-y' : 'none';
    listenToPointer(this.canvas, {
      isReady: () => Boolean(this.camera),
      point: (point) => this.#point(point),
      click: ({ x, y }) => this.#select(pick(this.camera, this.placed.positions, x, y)),
      turn: (dx, dy) => (this.placed.flat ? this.#move(dx, dy) : this.#turn(dx, dy)),
      move: (dx, dy) => this.#move(dx, dy),
      zoom: (factor, point) => this.#zoom(factor, point),
      open: () => this.state.selected >= 0 && this.#open(),
    });
    this.canvas.addEventListener('keydown', (event) => this.#key(event));
  }

  #turn(dx, dy) {
    this.camera.yaw += dx * TURN;
    this.camera.pitch = Math.min(1.5, Math.max(0.05, this.camera.pitch + dy * TURN));
    this.tip.hidden = true;
    this.#redraw();
  }

  #move(dx, dy) {
    this.camera.panX += dx;
    this.camera.panY += dy;
    this.tip.hidden = true;
    this.#redraw();
  }

  /** Zoom and keep what is under the point in place. */
  #zoom(factor, point) {
    const { camera } = this;
    const zoom = Math.min(NEAREST, Math.max(0.5, camera.zoom * factor));
    const by = zoom / camera.zoom;
    camera.panX += (point.x - camera.centreX) * (1 - by);
    camera.panY += (point.y - camera.centreY) * (1 - by);
    camera.zoom = zoom;
    this.#redraw();
  }

  #key(event) {
    const { selected } = this.state;
    const axis = event.shiftKey ? 'tp' : event.key === 'ArrowUp' || event.key === 'ArrowDown' ? 'pp' : 'dp';
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!this.placed) return;
    if (by !== undefined) this.#step(axis, by);
    else if (event.key === 'Enter' && selected >= 0) this.#open();
    else if (event.key === 'Escape') this.app.set({ rank: null });
    else if (event.key === '0' || event.key === 'Home') this.#firstView();
    else if (event.key === '+' || event.key === '-') {
      this.#zoom(event.key === '+' ? 1.25 : 0.8, { x: this.camera.centreX, y: this.camera.centreY });
    } else return;
    event.preventDefault();
  }

  #step(axis, by) {
    const { selected } = this.state;
    if (selected < 0) return this.#select(0);
    if (this.layout.reason || !this.layout.axes[axis]) {
      return this.#select(Math.min(this.places.rank.length - 1, Math.max(0, selected + by)));
    }
    this.#select(neighbour(this.places, this.index, selected, axis, by));
  }

  #select(i) {
    this.app.set({ rank: i < 0 ? null : this.places.rank[i] });
  }

  #open() {
    this.app.open({ page: 'timeline', rank: this.places.rank[this.state.selected] });
  }

  #point(point) {
    const hover = point && this.values ? pick(this.camera, this.placed.positions, point.x, point.y) : -1;
    this.tip.hidden = hover < 0;
    this.canvas.style.cursor = hover < 0 ? 'grab' : 'pointer';
    if (hover >= 0) this.#describe(hover, point);
    if (hover === this.state.hover) return;
    this.state.hover = hover;
    if (this.values) drawLabels(this.pen, this.placed, this.state);
  }

  #describe(i, point) {
    const [first, ...rest] = rankSentences(i, this);
    this.tip.replaceChildren(make('b', {}, first), ...rest.map((text) => make('div', {}, text)));
    placeTip(this.tip, point, ...this.size);
  }
}

const MARGIN = { left: 58, right: 40, top: 14, bottom: 46 };
const MARGIN_SIDE_BY_SIDE = { left: 20, right: 56, top: 44, bottom: 46 };
const MARGIN_FLAT = { left: 12, right: 12, top: 12, bottom: 12 };
