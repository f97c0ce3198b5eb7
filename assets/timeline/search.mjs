/** Search by name: highlights spans on screen at once, then counts and lists them from the server's answer. */
import { formatRanks } from '../lib/view_state.mjs';

const SEARCH_MS = 300;

/** Indices of the names that contain a text; null for an empty text. Pure. */
export function namesWith(names, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return null;
  const matches = new Set();
  names.forEach((name, number) => {
    if (name.toLowerCase().includes(wanted)) matches.add(number);
  });
  return matches;
}

/** Index of the first span that begins after time `t`, else 0. Pure. */
export function nextAfter(spans, t) {
  const index = spans.findIndex((span) => span.begin > t);
  return index < 0 ? 0 : index;
}

/** @returns {(input: HTMLInputElement, output: HTMLElement) => void} connects the search field and its output */
export function makeSearch(timeline) {
  const { app } = timeline;
  return (input, output) => {
    let spans = [];
    let current = -1;
    let timer = null;
    let request = new AbortController();
    const highlight = () => {
      if (!timeline.tile) return;
      timeline.shown.highlightedNames = namesWith(timeline.tile.meta.names, input.value);
      timeline.redraw();
    };
    const search = async () => {
      request.abort();
      request = new AbortController();
      [spans, current] = [[], -1];
      output.textContent = '';
      if (!input.value.trim()) return;
      try {
        const answer = await app.json(app.api('timeline/search', {
          attempt: timeline.attempt, name: input.value, ranks: formatRanks(timeline.geometry.ranks),
        }), request.signal);
        spans = answer.spans;
        output.textContent = answer.num_found
          ? `${answer.num_found.toLocaleString('en')} found: Enter for the next${spans.length < answer.num_found ? ` of the first ${spans.length}` : ''}`
          : 'not found in these lanes';
      } catch (error) {
        if (error.name !== 'AbortError') output.textContent = error.message;
      }
    };
    const next = (by) => {
      if (!spans.length) return;
      const middle = (timeline.window.begin + timeline.window.end) / 2;
      current = current < 0 ? nextAfter(spans, middle) : (current + by + spans.length) % spans.length;
      const { rank, begin, dur } = spans[current];
      output.textContent = `${current + 1} of ${spans.length}`;
      timeline.goTo({ rank, begin, end: begin + dur, row: 0 });
    };
    input.addEventListener('input', () => {
      highlight();
      clearTimeout(timer);
      timer = setTimeout(search, SEARCH_MS);
    });
    input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') next(event.shiftKey ? -1 : 1);
      if (event.key === 'Escape') {
        input.value = '';
        highlight();
        search();
        timeline.canvas.focus();
      }
    });
    timeline.addEventListener('tile', highlight);
  };
}
