/** Draws the DP peer with the median compute into the lane of a rank, to compare. */
import { contains } from '../lib/canvas/time_scale.mjs';
import { loadSums } from './panels/sums.mjs';

const COMPUTE_KINDS = ['forward', 'backward', 'wgrad', 'optimizer', 'kernel'];

/** Rank with the median compute time, the lower middle of an even number; null without ranks. Pure. */
export function medianRank(area) {
  const columns = COMPUTE_KINDS.map((kind) => area.kinds.indexOf(kind)).filter((k) => k >= 0);
  const sums = area.ranks.map((rank, i) => ({
    rank, time: columns.reduce((sum, k) => sum + area.time_ns[i][k], 0),
  })).sort((a, b) => a.time - b.time || a.rank - b.rank);
  return sums.length ? sums[(sums.length - 1) >> 1].rank : null;
}

export class Ghost {
  constructor(timeline) {
    this.timeline = timeline;
    this.loading = new AbortController();
    timeline.addEventListener('tile', () => this.#reload());
  }

  /** Show or hide the ghost of the selected rank's median peer. */
  async toggle() {
    const { timeline } = this;
    const { app, shown } = timeline;
    if (shown.ghost) {
      this.loading.abort();
      shown.ghost = null;
      timeline.redraw();
      return;
    }
    const rank = shown.selected?.rank ?? app.view.rank;
    if (rank === null || !timeline.window) return this.#showNote('Select a rank first: its peer is drawn into its lane.');
    try {
      const { signal } = this.#restartLoading();
      const { ranks } = await app.json(app.api('timeline/lanes', { lanes: 'dp', rank, attempt: timeline.attempt }), signal);
      const peers = ranks.filter((other) => other !== rank);
      if (!peers.length) return this.#showNote(`Rank ${rank} has no DP peer.`);
      const area = await loadSums(timeline, peers, timeline.window, signal);
      shown.ghost = { rank, peer: medianRank(area), tile: null };
      await this.#load();
      return this.#showNote(`Rank ${shown.ghost.peer}, the DP peer with the median compute, is drawn into the lane of rank ${rank}.`);
    } catch (error) {
      if (error.name !== 'AbortError') this.#showNote(error.message);
    }
    return undefined;
  }

  #restartLoading() {
    this.loading.abort();
    this.loading = new AbortController();
    return this.loading;
  }

  #reload() {
    const { ghost } = this.timeline.shown;
    if (!ghost) return;
    const { tile, window } = this.timeline;
    const near = ghost.tile && contains({ begin: ghost.tile.from, end: ghost.tile.to }, window)
      && ghost.tile.meta.pixel_ns < tile.meta.pixel_ns * 1.5;
    if (!near) this.#load().catch((error) => error.name === 'AbortError' || this.#showNote(error.message));
  }

  async #load() {
    const { timeline } = this;
    const { ghost } = timeline.shown;
    ghost.tile = await timeline.loadTile(
      { ...timeline.tileParams(timeline.window), ranks: [ghost.peer], rank: null }, this.#restartLoading().signal);
    timeline.redraw();
  }

  #showNote(text) {
    this.timeline.announcement.textContent = text;
    this.timeline.emit('note', text);
  }

  destroy() {
    this.loading.abort();
  }
}
