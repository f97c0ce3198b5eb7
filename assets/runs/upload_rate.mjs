/** How fast something goes and how long it still takes. Pure: no DOM, no clock of its own. */
import { size } from './run_rows.mjs';

const WINDOW_MS = 6000;
const LEAST_MS = 500;

export class Pace {
  #seen = [];

  /** @param {number} done bytes @param {number} nowMs */
  note(done, nowMs) {
    if (this.#seen.length && done < this.#seen.at(-1).done) this.#seen = [];
    this.#seen.push({ done, nowMs });
    while (this.#seen.length > 2 && this.#seen[1].nowMs < nowMs - WINDOW_MS) this.#seen.shift();
  }

  /** Bytes a second over the last seconds, null until that can be said. */
  rate() {
    if (this.#seen.length < 2) return null;
    const [first, last] = [this.#seen[0], this.#seen.at(-1)];
    const took = last.nowMs - first.nowMs;
    return took >= LEAST_MS && last.done > first.done ? ((last.done - first.done) * 1000) / took : null;
  }
}

/** Seconds in words that do not flicker. @param {number} seconds */
export function remaining(seconds) {
  if (seconds >= 5400) return `about ${Math.round(seconds / 3600)} h left`;
  if (seconds >= 90) return `about ${Math.round(seconds / 60)} min left`;
  return seconds >= 10 ? `about ${Math.ceil(seconds / 5) * 5} s left` : 'a few seconds left';
}

/** "120 MB of 300 MB, 41.0 MB/s, about 5 s left". @param {?number} rate bytes a second */
export function progressText(done, total, rate) {
  if (!total) return '';
  const parts = [`${size(done)} of ${size(total)}`];
  if (rate && done < total) parts.push(`${size(rate)}/s`, remaining((total - done) / rate));
  return parts.join(', ');
}
