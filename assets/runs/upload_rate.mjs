/** Rate of an upload or import and the time it still takes. Pure: no DOM, no clock of its own. */
import { size } from './run_rows.mjs';

const WINDOW_MS = 6000;
const LEAST_MS = 500;

export class UploadRate {
  #samples = [];

  /** @param {number} done bytes @param {number} nowMs */
  add(done, nowMs) {
    if (this.#samples.length && done < this.#samples.at(-1).done) this.#samples = [];
    this.#samples.push({ done, nowMs });
    while (this.#samples.length > 2 && this.#samples[1].nowMs < nowMs - WINDOW_MS) this.#samples.shift();
  }

  /** Bytes per second over the last seconds, null until enough is known. */
  rate() {
    if (this.#samples.length < 2) return null;
    const [first, last] = [this.#samples[0], this.#samples.at(-1)];
    const elapsedMs = last.nowMs - first.nowMs;
    return elapsedMs >= LEAST_MS && last.done > first.done ? ((last.done - first.done) * 1000) / elapsedMs : null;
  }
}

/** Remaining seconds, rounded so that the text does not flicker. @param {number} seconds */
export function remaining(seconds) {
  if (seconds >= 5400) return `about ${Math.round(seconds / 3600)} h left`;
  if (seconds >= 90) return `about ${Math.round(seconds / 60)} min left`;
  return seconds >= 10 ? `about ${Math.ceil(seconds / 5) * 5} s left` : 'a few seconds left';
}

/** "120 MB of 300 MB, 41.0 MB/s, about 5 s left". @param {?number} rate bytes per second */
export function progressText(done, total, rate) {
  if (!total) return '';
  const parts = [`${size(done)} of ${size(total)}`];
  if (rate && done < total) parts.push(`${size(rate)}/s`, remaining((total - done) / rate));
  return parts.join(', ');
}
