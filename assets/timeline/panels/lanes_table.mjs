/** The lanes for those who do not see the canvas: a label, what is selected, a table of sums. */
import { clampedTo, formatNs } from '../../lib/canvas/time_scale.mjs';
import { make } from '../../lib/dom.mjs';
import { loadSums, sumsTable } from './sums.mjs';
import { described } from './tooltip.mjs';

/** What the canvas shows, in a sentence. Pure. */
export function sentenceOf(tile, geometry) {
  const { meta } = tile;
  const ranks = geometry.ranks;
  const who = ranks.length > 8 ? `${ranks.length} ranks` : `rank${ranks.length > 1 ? 's' : ''} ${ranks.join(', ')}`;
  const steps = [...new Set(tile.arrays.step)].filter((step) => step >= 0).sort((a, b) => a - b);
  const which = steps.length ? `, steps ${steps[0]} to ${steps[steps.length - 1]}` : '';
  return `Timeline of ${who}${which}: ${meta.num_spans} spans. W and S zoom, A and D pan, comma and `
    + 'full stop go from slice to slice; the table below has the sums.';
}

/** Labels the canvas and says what gets selected. */
export function sayWhatIsShown(timeline) {
  timeline.said = make('div', { class: 'visually-hidden', 'aria-live': 'polite' });
  const label = () => timeline.canvas.setAttribute('aria-label', sentenceOf(timeline.tile, timeline.geometry));
  const say = ({ detail: slice }) => {
    if (!slice) return;
    const { title, rows } = described(slice, timeline.tile.meta);
    timeline.said.textContent = `rank ${slice.rank}: ${title}, ${rows.slice(0, 5).map((row) => row.join(' ')).join(', ')}`;
  };
  timeline.addEventListener('tile', label);
  timeline.addEventListener('select', say);
  return {
    destroy() {
      timeline.removeEventListener('tile', label);
      timeline.removeEventListener('select', say);
    },
  };
}

/** The sums of the window on screen, loaded when the table is opened and after each move. */
export function makeTable(timeline) {
  const place = make('div');
  const element = make('details', { class: 'tl-table', on: { toggle: () => load() } },
    make('summary', {}, 'The lanes as a table'), place);
  let loading = new AbortController();
  let timer = null;
  async function load() {
    if (!element.open || !timeline.window) return;
    loading.abort();
    loading = new AbortController();
    const window = clampedTo(timeline.window, timeline.extent);
    try {
      const area = await loadSums(timeline, timeline.geometry.ranks, window, loading.signal);
      place.replaceChildren(
        make('p', { class: 'quiet' }, `${formatNs(window.end - window.begin)} of `
          + `${area.ranks.length} lanes, time by kind`),
        sumsTable(area, window.end - window.begin));
    } catch (error) {
      if (error.name !== 'AbortError') place.replaceChildren(make('p', { class: 'failed' }, error.message));
    }
  }
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(load, 400);
  };
  timeline.addEventListener('window', later);
  timeline.addEventListener('tile', later);
  return {
    element,
    destroy() {
      clearTimeout(timer);
      loading.abort();
      timeline.removeEventListener('window', later);
      timeline.removeEventListener('tile', later);
    },
  };
}
