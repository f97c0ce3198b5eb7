/** Search by name: highlights what is on screen at once, counts and jumps by the server's answer. */
import { formatRanks } from '../lib/view_state.mjs';

const ASK_MS = 300;

/** Names (indices) that contain a text; null for an empty one. Pure. */
export function namesWith(names, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return null;
  const found = new Set();
  names.forEach((name, number) => {
    if (name.toLowerCase().includes(wanted)) found.add(number);
  });
  return found;
}

/** Index of the first span that begins after a moment, else 0. Pure. */
export function nextAfter(spans, t) {
  const found = spans.findIndex((span) => span.begin > t);
  return found < 0 ? 0 : found;
}

/** @returns {(input: HTMLInputElement, output: HTMLElement) => void} what wires the two up */
export function searcher(timeline) {
  const { app } = timeline;
  return (input, output) => {
    let spans = [];
    let here = -1;
    let timer = null;
    let asking = new AbortController();
    const highlight = () => {
      if (!timeline.tile) return;
      timeline.shown.found = namesWith(timeline.tile.meta.names, input.value);
      timeline.redraw();
    };
    const ask = async () => {
      asking.abort();
      asking = new AbortController();
      [spans, here] = [[], -1];
      output.textContent = '';
      if (!input.value.trim()) return;
      try {
        const answer = await app.json(app.api('timeline/search', {
          attempt: timeline.attempt, name: input.value, ranks: formatRanks(timeline.geometry.ranks),
        }), asking.signal);
        spans = answer.spans;
        output.textContent = answer.num_found
          ? `${answer.num_found.toLocaleString('en')} found${spans.length < answer.num_found ? `, first ${spans.length} listed` : ''}: Enter goes on`
          : 'no such name in these lanes';
      } catch (error) {
        if (error.name !== 'AbortError') output.textContent = error.message;
      }
    };
    const next = (by) => {
      if (!spans.length) return;
      const middle = (timeline.window.begin + timeline.window.end) / 2;
      here = here < 0 ? nextAfter(spans, middle) : (here + by + spans.length) % spans.length;
      const { rank, begin, dur } = spans[here];
      output.textContent = `${here + 1} of ${spans.length}`;
      timeline.goTo({ rank, begin, end: begin + dur, row: 0 });
    };
    input.addEventListener('input', () => {
      highlight();
      clearTimeout(timer);
      timer = setTimeout(ask, ASK_MS);
    });
    input.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') next(event.shiftKey ? -1 : 1);
      if (event.key === 'Escape') {
        input.value = '';
        highlight();
        ask();
        timeline.canvas.focus();
      }
    });
    timeline.addEventListener('tile', highlight);
  };
}
