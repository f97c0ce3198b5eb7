/** The lanes for screen readers: a label of the canvas, the selected slice, a table of sums. */
import { clampedTo, formatNs } from '../../lib/canvas/time_scale.mjs';
import { make } from '../../lib/dom.mjs';
import { stepsText } from '../../lib/value_text.mjs';
import { loadSums, sumsTable } from './sums.mjs';
import { sliceText } from './tooltip.mjs';

/** Sentence about what the canvas shows. Pure. */
export function sentenceOf(tile, geometry) {
  const { meta } = tile;
  const ranks = geometry.ranks;
  const rankText = ranks.length > 8 ? `${ranks.length} ranks` : `rank${ranks.length > 1 ? 's' : ''} ${ranks.join(', ')}`;
  const steps = [...new Set(tile.arrays.step)].filter((step) => step >= 0).sort((a, b) => a - b);
  const stepText = steps.length ? `, ${stepsText([steps[0], steps[steps.length - 1]])}` : '';
  return `Timeline of ${rankText}${stepText}: ${meta.num_spans.toLocaleString('en')} spans. W and S zoom, A and D pan, comma and `
    + 'full stop move between slices; the table below has the sums.';
}

/** Labels the canvas and announces what gets selected. */
export function describeCanvas(timeline) {
  timeline.announcement = make('div', { class: 'visually-hidden', 'aria-live': 'polite' });
  const label = () => timeline.canvas.setAttribute('aria-label', sentenceOf(timeline.tile, timeline.geometry));
  const announce = ({ detail: slice }) => {
    if (!slice) return;
    const { title, rows } = sliceText(slice, timeline.tile.meta);
    timeline.announcement.textContent = `rank ${slice.rank}: ${title}, ${rows.slice(0, 5).map((row) => row.join(' ')).join(', ')}`;
  };
  timeline.addEventListener('tile', label);
  timeline.addEventListener('select', announce);
  return {
    destroy() {
      timeline.removeEventListener('tile', label);
      timeline.removeEventListener('select', announce);
    },
  };
}

/** `8 lanes`, or which of many. Pure. */
export function lanesText(ranks, total) {
  if (ranks.length === total) return `${total} lane${total === 1 ? '' : 's'}`;
  return `${ranks.length} of ${total.toLocaleString('en')} lanes, r${ranks[0]} to r${ranks.at(-1)}`;
}

/** The sums of the window on screen, loaded when the table is opened and after each move. */
export function makeTable(timeline) {
  const container = make('div');
  const element = make('details', { class: 'tl-table', on: { toggle: () => load() } },
    make('summary', {}, 'The lanes as a table'), container);
  let loading = new AbortController();
  let timer = null;
  async function load() {
    if (!element.open || !timeline.window) return;
    loading.abort();
    loading = new AbortController();
    const window = clampedTo(timeline.window, timeline.extent);
    try {
      const area = await loadSums(timeline, timeline.ranksInSight(), window, loading.signal);
      container.replaceChildren(
        make('p', { class: 'quiet' }, `${formatNs(window.end - window.begin)} of ${lanesText(area.ranks, timeline.geometry.ranks.length)}, time by kind`),
        sumsTable(area, window.end - window.begin, timeline.tile.meta));
    } catch (error) {
      if (error.name !== 'AbortError') container.replaceChildren(make('p', { class: 'failed' }, error.message));
    }
  }
  const loadSoon = () => {
    clearTimeout(timer);
    timer = setTimeout(load, 400);
  };
  timeline.addEventListener('window', loadSoon);
  timeline.addEventListener('tile', loadSoon);
  return {
    element,
    destroy() {
      clearTimeout(timer);
      loading.abort();
      timeline.removeEventListener('window', loadSoon);
      timeline.removeEventListener('tile', loadSoon);
    },
  };
}
