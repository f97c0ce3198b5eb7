/**
 * The timeline's canvas and its state: window, lanes, the tile on screen and the tile being loaded. Knows
 * the canvas and the app's view state; tooltips and panels listen to its events:
 * `tile` (a new one is shown), `window` (moved), `select`, `hover`, `area`, `marks`, `pins`, `state`.
 */
import { readTheme } from '../lib/canvas/kind_colours.mjs';
import { clamped, contains, padded, panned, zoomed } from '../lib/canvas/time_scale.mjs';
import { loadCulprits, NO_ROLES } from '../lib/culprits.mjs';
import { makeFetcher } from '../lib/fetcher.mjs';
import { draw } from './lanes/draw.mjs';
import { isJudged } from './lanes/fault_time.mjs';
import { labelRoom, laneAt, lanesInSight, laneSizes, laneTop, mostScroll, rowAt, timeOf } from './lanes/geometry.mjs';
import { COMM, COMPUTE, HOST, IDLE, WAIT } from './lanes/tile.mjs';
import { NothingYet } from './lanes/tile_loader.mjs';

const FETCH_MS = 70;
const FOLLOW_MS = 600;
const URL_MS = 250;
const ROLES_MS = 1000;
const OVERSCAN = 0.5;
const SMALLEST_SHARE = 1000;  // a slice to reveal is shown larger than 1/SMALLEST_SHARE of the window
const MOST_AT_ONCE = 64;

export class Timeline extends EventTarget {
  /**
   * @param {HTMLCanvasElement} canvas @param {Object} app
   * @param {(params: Object, signal: AbortSignal) => Promise<import('./lanes/tile.mjs').Tile>} loadTile
   * @param {{compact?: boolean, height?: number}} options
   */
  constructor(canvas, app, loadTile, options) {
    super();
    Object.assign(this, { canvas, app, loadTile, options });
    this.ctx = canvas.getContext('2d', { willReadFrequently: true, alpha: false });
    this.theme = readTheme(document.body);
    this.tile = null;
    this.shown = { rank: app.view.rank, roles: NO_ROLES, selected: null, hover: null, area: null, marks: [], highlightedNames: null, pinned: new Set() };
    this.geometry = {
      width: 0, height: 0, left: 116, top: 36, laneHeight: 40, scroll: 0, ranks: [],
      window: { begin: 0, end: 1 },
    };
    this.window = null;
    this.serverChooses = true;  // the window: the selected steps, else the newest
    this.following = false;
    this.followedAt = -Infinity;  // when new data was last loaded
    this.roles = makeFetcher((signal) => this.#loadRoles(signal), ROLES_MS);
  }

  /** The attempt on screen; it is not the newest if the steps are from before a restart. */
  get attempt() {
    return this.tile?.meta.attempt ?? this.app.view.attempt;
  }

  emit(name, detail = null) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  /** Load the lanes and the window of the view state. */
  open() {
    const { t, ranks } = this.app.view;
    this.window = t ? { begin: t[0], end: t[1] } : null;
    this.serverChooses = !t;
    this.following = !t && !this.app.view.steps;
    this.wantedRanks = ranks;
    this.geometry.ranks = ranks;
    this.tile = null;
    this.writtenWindow = t;
    this.load(0);
    this.roles.now();
  }

  /** Show the steps of the view state. */
  showSteps() {
    this.serverChooses = true;
    this.following = false;
    this.load(0);
  }

  /** Load the missing data after a pause, so that several changes make one request. */
  load(pause = FETCH_MS) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#fetch(), pause);
  }

  async #fetch() {
    this.loading?.abort();
    const loading = this.loading = new AbortController();
    if (!this.tile) this.emit('state', { name: 'loading' });
    const requestedWindow = this.serverChooses ? null : this.window;
    try {
      const tile = await this.loadTile(this.tileParams(requestedWindow), loading.signal);
      if (loading.signal.aborted) return;
      this.#showTile(tile, requestedWindow);
    } catch (error) {
      if (error.name === 'AbortError' || loading.signal.aborted) return;
      this.emit('state', { name: error instanceof NothingYet ? 'nothing' : 'error', text: error.message });
    } finally {
      if (this.loading === loading) this.loading = null;
      if (this.isOutdated && !this.loading) {
        this.isOutdated = false;
        this.load(0);
      }
    }
  }

  /** Load who is judged; the lanes are drawn again once it is known. */
  async #loadRoles(signal) {
    try {
      this.shown.roles = await loadCulprits(this.app, signal);
      this.redraw();
      this.emit('roles');
    } catch { /* superseded */ }
  }

  /** Whether a rank is a culprit at a time. */
  isJudgedAt(rank, t) {
    const { tile } = this;
    return isJudged(tile, tile.laneOfRank.get(rank) ?? 0, rank, this.shown.roles, { begin: t, end: t + 1 });
  }

  /** Request parameters of the tile for a window; without a window the server chooses. */
  tileParams(window) {
    const { view } = this.app;
    const step = this.tile?.meta.relative_step ?? null;
    return {
      attempt: view.attempt, rank: view.rank,
      ranks: this.tile ? this.ranksInSight() : this.wantedRanks,
      steps: window && step !== null ? [step, step] : view.steps,
      window: window ? padded(window, OVERSCAN) : null,
      width: (this.geometry.width - this.geometry.left) * (window ? 1 + 2 * OVERSCAN : 1),
    };
  }

  /** The ranks of all lanes, where they are many those in sight and next to them. */
  ranksInSight() {
    if (this.geometry.ranks.length <= MOST_AT_ONCE) return this.geometry.ranks;
    const [first, last] = lanesInSight(this.geometry);
    const room = Math.max(MOST_AT_ONCE - (last - first + 1), 0);
    const from = Math.max(first - Math.floor(room / 2), 0);
    return this.geometry.ranks.slice(from, from + MOST_AT_ONCE);
  }

  #showTile(tile, requestedWindow) {
    const isFirst = !this.tile;
    this.tile = tile;
    this.geometry.onlyComm = tile.meta.only_comm === true;
    this.extent = tile.meta.extent
      ? { begin: tile.meta.extent.begin_ns, end: tile.meta.extent.end_ns } : { begin: tile.from, end: tile.to };
    if (isFirst) this.#setRanks(tile.meta.ranks);
    if (!requestedWindow) this.window = padded({ begin: tile.from, end: tile.to }, 0.01);
    if (isFirst && tile.meta.state === 'finished' && this.following) this.following = false;
    this.#fitHeight();
    if (isFirst) this.#scrollToRank(this.app.view.rank);
    this.redraw();
    this.emit('tile', tile);
    this.#selectWanted();
    this.emit('state', { name: tile.arrays.lane.length ? 'drawn' : 'empty' });
  }

  #setRanks(ranks) {
    const pinned = ranks.filter((rank) => this.shown.pinned.has(rank));
    this.geometry.ranks = [...pinned, ...ranks.filter((rank) => !this.shown.pinned.has(rank))];
    this.geometry.left = labelRoom(this.geometry.width, this.geometry.ranks);
  }

  /** View state that a link needs to open this view: lanes, window and the selected rank. */
  linkPatch() {
    if (!this.tile || !this.window) return {};
    const { relative_step: step } = this.tile.meta;
    return {
      attempt: this.attempt, ranks: this.geometry.ranks, t: [Math.round(this.window.begin), Math.round(this.window.end)],
      ...(step === null ? {} : { steps: [step, step] }),
      rank: this.app.view.rank ?? this.shown.selected?.rank ?? null,
    };
  }

  /** The run has new data. */
  news() {
    if (!this.tile) {
      if (!this.loading) this.load(0);
    } else if (this.following) {
      if (this.followTimer) return;
      const wait = Math.max(this.followedAt + FOLLOW_MS - performance.now(), 0);
      this.followTimer = setTimeout(() => {
        this.followTimer = null;
        this.followedAt = performance.now();
        if (!this.following) return;
        if (this.loading) this.isOutdated = true;  // new data must not abort the request for older data
        else this.load(0);
      }, wait);
    } else if (this.window && this.extent && this.window.end > this.extent.end) {
      this.load(FOLLOW_MS);
    }
  }

  /** Follow the newest data again. */
  follow() {
    this.following = true;
    this.writtenWindow = null;
    this.app.set({ t: null, steps: null });
    this.serverChooses = true;
    this.load(0);
    this.emit('window');
  }

  /** Show a window that the user moved to, stop following, write it into the URL. */
  moveTo(window) {
    if (!this.window) return;
    this.following = false;
    this.serverChooses = false;
    this.window = clamped(window, this.extent);
    this.redraw();
    this.emit('window');
    if (this.#isStale()) this.load();
    clearTimeout(this.urlTimer);
    this.urlTimer = setTimeout(() => {
      this.writtenWindow = [Math.round(this.window.begin), Math.round(this.window.end)];
      if (!this.options.data) this.app.set({ t: this.writtenWindow });
    }, URL_MS);
  }

  #isStale() {
    const { tile, window, extent } = this;
    if (!tile) return true;
    const seen = { begin: Math.max(window.begin, extent.begin), end: Math.min(window.end, extent.end) };
    if (seen.end > seen.begin && !contains({ begin: tile.from, end: tile.to }, seen)) return true;
    const pixel = (window.end - window.begin) / (this.geometry.width - this.geometry.left);
    if (tile.meta.pixel_ns > pixel * 1.7 && (tile.meta.merged > 0 || tile.meta.detail !== 'nested')) return true;
    if (tile.meta.pixel_ns < pixel / 4) return true;
    const [first, last] = lanesInSight(this.geometry);
    return this.geometry.ranks.slice(first, last + 1).some((rank) => !tile.laneOfRank.has(rank));
  }

  zoom(factor, x = null) {
    if (!this.window) return;
    const at = x === null ? (this.window.begin + this.window.end) / 2 : timeOf(this.#placed(), x);
    this.moveTo(zoomed(this.window, at, factor, (this.extent.end - this.extent.begin) * 1.5));
  }

  pan(share) {
    if (this.window) this.moveTo(panned(this.window, (this.window.end - this.window.begin) * share));
  }

  panPx(px) {
    if (!this.window) return;
    const room = Math.max(this.geometry.width - this.geometry.left, 1);
    this.moveTo(panned(this.window, -px * (this.window.end - this.window.begin) / room));
  }

  /** Bring the lane of a rank into the middle where it is out of sight. */
  #scrollToRank(rank) {
    const lane = this.geometry.ranks.indexOf(rank);
    const [first, last] = lanesInSight(this.geometry);
    if (lane < 0 || (lane >= first && lane < last)) return;
    this.scrollBy((lane - (last - first) / 2) * this.geometry.laneHeight - this.geometry.scroll);
  }

  /** Scroll the lanes. @returns {boolean} whether they moved */
  scrollBy(px) {
    const before = this.geometry.scroll;
    this.geometry.scroll = Math.min(Math.max(before + px, 0), mostScroll(this.geometry));
    if (this.geometry.scroll === before) return false;
    this.redraw();
    if (this.#isStale()) this.load();
    return true;
  }

  /** Fit the selected area or slice, else everything. */
  fit() {
    const chosen = this.shown.area ?? this.shown.selected;
    this.moveTo(padded(chosen ? { begin: chosen.begin, end: chosen.end } : this.extent, chosen ? 0.3 : 0.01));
  }

  select(slice, { reveal = false } = {}) {
    this.shown.selected = slice;
    if (slice && reveal) this.reveal(slice);
    this.redraw();
    this.emit('select', slice);
  }

  /** Bring a slice into sight: its lane by scrolling, its time by moving. */
  reveal({ rank, begin, end }) {
    const lane = this.geometry.ranks.indexOf(rank);
    if (lane >= 0) {
      const y = laneTop(this.geometry, lane);
      if (y < this.geometry.top) this.scrollBy(y - this.geometry.top);
      const below = y + this.geometry.laneHeight - this.geometry.height;
      if (below > 0) this.scrollBy(below);
    }
    const length = this.window.end - this.window.begin;
    const isTooSmall = (end - begin) * SMALLEST_SHARE < length;
    if (end < this.window.begin || begin > this.window.end || end - begin > length || isTooSmall) {
      const middle = (begin + end) / 2;
      const half = (isTooSmall ? (end - begin) * SMALLEST_SHARE / 4 : Math.max(length, (end - begin) * 1.5)) / 2;
      this.moveTo({ begin: middle - half, end: middle + half });
    }
  }

  /** What is drawn at a point: {slice, rank, t}; slice is null if nothing is. */
  at(x, y) {
    const geometry = this.#placed();
    const lane = laneAt(geometry, y);
    const rank = lane < 0 ? null : geometry.ranks[lane];
    const t = timeOf(geometry, x);
    const number = this.tile?.laneOfRank.get(rank);
    if (number === undefined || x < geometry.left) return { slice: null, rank, t };
    return { slice: this.#sliceAt(geometry, lane, number, t, y), rank, t };
  }

  #sliceAt(geometry, lane, number, t, y) {
    const { tile } = this;
    const { row, share } = rowAt(geometry, lane, y);
    const slack = 3 * (this.window.end - this.window.begin) / Math.max(geometry.width - geometry.left, 1);
    if (row === COMPUTE && tile.meta.detail === 'nested' && !geometry.onlyComm) {  // drawn over the spans that it lies in
      const over = tile.at(number, IDLE, 0, t);
      if (over >= 0) return this.#slice(over);
    }
    const lowest = Math.floor(share * tile.levels[row]);
    for (let level = lowest; level >= (geometry.onlyComm ? lowest : 0); level--) {
      const i = tile.at(number, row, level, t, level === lowest ? slack : 0);
      if (i >= 0) return this.#slice(i);
    }
    const behind = row === COMPUTE || geometry.onlyComm ? tile.at(number, IDLE, 0, t) : -1;
    return behind >= 0 ? this.#slice(behind) : null;
  }

  #slice(i) {
    const { tile } = this;
    const slice = tile.describe(i);
    slice.tileRow = slice.row;
    slice.row = slice.row === IDLE ? COMPUTE : slice.row === WAIT ? COMM : slice.row;
    return { ...slice, index: i, tile, level: tile.arrays.level[i], levels: tile.levels[slice.row] };
  }

  /** The slice after (1) or before (-1) the selected one in its lane. */
  step(by) {
    const { selected } = this.shown;
    if (!selected || !this.tile) return;
    const number = this.tile.laneOfRank.get(selected.rank);
    const here = selected.tile === this.tile ? selected.index
      : this.tile.at(number, selected.row, selected.level ?? 0, (selected.begin + selected.end) / 2, Infinity);
    const next = here < 0 ? -1 : this.tile.neighbour(here, by);
    if (next >= 0) this.select(this.#slice(next), { reveal: true });
  }

  /** Show and select a slice, which may not be loaded yet: {rank, begin, end, row}. */
  goTo(slice) {
    this.sliceToSelect = slice;
    this.shown.selected = slice.kind ? slice : null;
    if (!this.geometry.ranks.includes(slice.rank)) {
      this.app.set({ ranks: [...this.geometry.ranks, slice.rank] });
    }
    this.reveal(slice);
    this.#selectWanted();
    this.redraw();
  }

  /** Select the slice of `goTo` once a tile contains it. */
  #selectWanted() {
    const { sliceToSelect: wanted, tile } = this;
    const number = tile?.laneOfRank.get(wanted?.rank);
    if (number === undefined) return;
    const middle = (wanted.begin + wanted.end) / 2;
    for (const row of [wanted.row ?? COMPUTE, COMPUTE, COMM, HOST]) {
      let best = null;
      for (let level = 0; level < tile.levels[row]; level++) {
        const i = tile.at(number, row, level, middle);
        if (i < 0) continue;
        const slice = this.#slice(i);
        const { begin, dur } = slice.span ?? { begin: slice.begin, dur: slice.end - slice.begin };
        const distance = Math.abs(begin - wanted.begin) + Math.abs(begin + dur - wanted.end);
        if (!best || distance <= best.distance) best = { slice, distance };
      }
      if (!best) continue;
      this.sliceToSelect = null;
      this.select(best.slice);
      return;
    }
  }

  /** Show these lanes (from the view state). */
  setLanes(ranks) {
    this.wantedRanks = ranks;
    if (ranks.length) this.#setRanks(ranks);
    else this.tile = null;
    this.setArea(null);
    this.geometry.scroll = 0;
    this.#fitHeight();
    this.redraw();
    this.load(0);
  }

  /** Toggle a mark at the mouse, else in the middle of the window. */
  mark() {
    const markedTime = this.shown.cursor ?? (this.window.begin + this.window.end) / 2;
    const near = (this.window.end - this.window.begin) / 200;
    const kept = this.shown.marks.filter((t) => Math.abs(t - markedTime) > near);
    this.shown.marks = kept.length < this.shown.marks.length ? kept : [...kept, markedTime];
    this.redraw();
    this.emit('marks');
  }

  /** Clear selection, area and marks. */
  clear() {
    Object.assign(this.shown, { marks: [], ghost: null });
    this.setArea(null);
    this.select(null);
    this.emit('marks');
  }

  /** Select an area: {begin, end, lanes: [first, last]}; null for none. */
  setArea(area) {
    this.shown.area = area;
    this.redraw();
    this.emit('area', area);
  }

  /** Toggle whether a lane is kept on top. */
  pin(rank) {
    if (!this.shown.pinned.delete(rank)) this.shown.pinned.add(rank);
    this.sortLanes();
    this.emit('pins');
  }

  /** Put the pinned lanes on top. */
  sortLanes() {
    this.#setRanks(this.geometry.ranks);
    this.redraw();
  }

  resize() {
    this.geometry.width = this.canvas.parentElement.clientWidth;
    this.geometry.left = labelRoom(this.geometry.width, this.geometry.ranks);
    this.#fitHeight();
    this.redraw();
    if (this.window && this.tile && this.#isStale()) this.load();
  }

  #fitHeight() {
    const { canvas, geometry, options } = this;
    const above = canvas.getBoundingClientRect().top + window.scrollY;
    const room = options.height ?? Math.max(window.innerHeight - above - (options.compact ? 40 : 120), 300);
    Object.assign(geometry, laneSizes(geometry.ranks.length || 8, room, geometry.top));
    geometry.scroll = Math.min(geometry.scroll, mostScroll(geometry));
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(geometry.width * ratio), Math.round(geometry.height * ratio)];
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
      canvas.style.height = `${geometry.height}px`;
    }
  }

  #placed() {
    this.geometry.window = this.window ?? { begin: 0, end: 1 };
    return this.geometry;
  }

  applyTheme() {
    this.theme = readTheme(document.body);
    this.emit('theme');
    this.redraw();
  }

  /** Draw once before the next frame. */
  redraw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.paint();
    });
  }

  paint() {
    const ratio = window.devicePixelRatio || 1;
    this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw(this.ctx, this.tile, this.#placed(), this.theme, this.shown);
  }

  destroy() {
    this.loading?.abort();
    this.roles.stop();
    for (const timer of [this.timer, this.followTimer, this.urlTimer]) clearTimeout(timer);
    cancelAnimationFrame(this.frame);
  }
}
