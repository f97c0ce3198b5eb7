/**
 * Arithmetic of the time axis. Pure. Times are ns since the run's t0, as numbers.
 *
 * @typedef {{begin: number, end: number}} Span window of time, ns
 */

export const SHORTEST_NS = 100;

/** `1.5 ms`: three digits in the unit that fits. */
export function formatNs(ns) {
  const size = Math.abs(ns);
  const [divisor, unit] = size >= 1e9 ? [1e9, 's'] : size >= 1e6 ? [1e6, 'ms']
    : size >= 1e3 ? [1e3, 'µs'] : [1, 'ns'];
  const value = ns / divisor;
  const digits = unit === 'ns' ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.max(Math.abs(value), 1))));
  return `${value.toFixed(digits)} ${unit}`;
}

/** `12.4 MB`; empty for unknown (negative). */
export function formatBytes(bytes) {
  if (!(bytes >= 0)) return '';
  const [divisor, unit] = bytes >= 1e9 ? [1e9, 'GB'] : bytes >= 1e6 ? [1e6, 'MB']
    : bytes >= 1e3 ? [1e3, 'kB'] : [1, 'B'];
  return `${(bytes / divisor).toFixed(divisor === 1 ? 0 : 1)} ${unit}`;
}

/** Smallest of 1, 2, 5 x 10^k that is at least `least`. */
export function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least * (1 - 1e-9));
}

/**
 * Ticks of a time axis, in one unit, counted from `origin`.
 * @param {Span} span @param {number} widthPx @param {number} origin
 * @returns {{t: number, label: string}[]}
 */
export function ticks(span, widthPx, origin, leastPx = 90) {
  const step = Math.max(niceStep((span.end - span.begin) * leastPx / Math.max(widthPx, 1)), 1);
  const [divisor, unit] = step >= 1e9 ? [1e9, 's'] : step >= 1e6 ? [1e6, 'ms']
    : step >= 1e3 ? [1e3, 'µs'] : [1, 'ns'];
  const first = Math.ceil((span.begin - origin) / step);
  const last = Math.floor((span.end - origin) / step);
  const marks = [];
  for (let number = first; number <= last; number++) {
    const value = number * step / divisor;
    marks.push({ t: origin + number * step, label: `${Number(value.toFixed(3))} ${unit}` });
  }
  return marks;
}

/** @returns {Span} the window zoomed by `factor` (below 1: closer) so that time `at` stays in place */
export function zoomed(span, at, factor, longest = Infinity) {
  const length = span.end - span.begin;
  const wanted = Math.min(Math.max(length * factor, SHORTEST_NS), Math.max(longest, SHORTEST_NS));
  const share = (at - span.begin) / length;
  const begin = at - share * wanted;
  return { begin, end: begin + wanted };
}

/** @returns {Span} the window moved by a time */
export function panned(span, by) {
  return { begin: span.begin + by, end: span.end + by };
}

/** @returns {Span} moved so that some of the extent stays in sight */
export function clamped(span, extent, share = 0.8) {
  const length = span.end - span.begin;
  const least = extent.begin - length * share;
  const most = extent.end + length * share - length;
  const begin = Math.min(Math.max(span.begin, Math.min(least, most)), Math.max(least, most));
  return { begin, end: begin + length };
}

/** @returns {Span} with some margin on both sides */
export function padded(span, share = 0.05) {
  const room = Math.max((span.end - span.begin) * share, SHORTEST_NS / 2);
  return { begin: span.begin - room, end: span.end + room };
}

/** @returns {Span} the part of a window inside the extent; the whole window if none is */
export function clampedTo(span, extent) {
  const [begin, end] = [Math.max(span.begin, extent.begin), Math.min(span.end, extent.end)];
  return end > begin ? { begin, end } : span;
}

/** Whether `outer` contains all of `inner`. */
export function contains(outer, inner) {
  return outer.begin <= inner.begin && outer.end >= inner.end;
}

/** Local time and UTC of a moment. @param {string} t0 Unix ns as text @param {number} t */
export function clockTime(t0, t) {
  const date = new Date(Number(BigInt(t0) / 1000000n) + t / 1e6);
  if (Number.isNaN(date.getTime())) return '';
  const pad = (value, size = 2) => String(value).padStart(size, '0');
  const local = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}.${pad(date.getMilliseconds(), 3)}`;
  return `${local} (${date.toISOString().replace('T', ' ').replace('Z', ' UTC')})`;
}
