/** Text of the values of an answer. Pure: no DOM. */

export const NONE = '\u2013';
const UNIX_FROM_NS = 1e17;  // 1973: greater values are points in time, not durations
const UNKNOWN_AS_MINUS_ONE = new Set([
  'cpu_ns', 'end_ns', 'num_bytes', 'peer', 'microbatch', 'chunk', 'coll_seq', 'sum_sq_len']);
const RANKS = new Set(['rank', 'worst_rank', 'peer', 'src', 'dst', 'failed_rank']);

/** Whether a column is right-aligned. */
export function isNumber(column) {
  return ['int', 'float'].includes(column.kind);
}

/** Rank in a cell, null if it is not a rank. */
export function rankOf(column, value) {
  const names = RANKS.has(column.name) && column.kind === 'int';
  return names && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

function duration(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return `${(ns / 1e9).toFixed(3)} s`;
  if (size >= 1e6) return `${(ns / 1e6).toFixed(3)} ms`;
  if (size >= 1e3) return `${(ns / 1e3).toFixed(1)} µs`;
  return `${ns} ns`;
}

/** A point in local time with milliseconds. @param {string|number} ns Unix ns */
export function moment(ns) {
  const date = new Date(Number(ns) / 1e6);
  const two = (value) => String(value).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} `
    + `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
    + `.${String(date.getMilliseconds()).padStart(3, '0')}`;
}

function float(value) {
  if (typeof value === 'string') return value;
  const size = Math.abs(value);
  if (value === 0) return '0';
  if (size >= 1e9 || size < 1e-4) return value.toExponential(3);
  return Number(value.toPrecision(6)).toLocaleString('en', { maximumFractionDigits: 6 });
}

function bytes(value) {
  for (const [factor, unit] of [[1e12, 'TB'], [1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB']]) {
    if (value >= factor) return `${(value / factor).toPrecision(3)} ${unit}`;
  }
  return `${value} B`;
}

/**
 * Text of a cell, and a tooltip if the text leaves something out.
 * @param {{name: string, kind: string}} column
 * @returns {{text: string, title: string}}
 */
export function cell(column, value) {
  if (value === null || value === undefined) return { text: NONE, title: 'NULL: unknown or none' };
  if (column.kind === 'int') return whole(column.name, value);
  if (column.kind === 'float') return { text: float(value), title: String(value) };
  if (column.kind === 'bool') return { text: value ? 'yes' : 'no', title: '' };
  return { text: String(value), title: '' };
}

function whole(name, value) {
  const raw = String(value);
  const number = Number(value);
  if (name.endsWith('_ns') && number >= UNIX_FROM_NS && number < 1e19) {
    const utc = new Date(number / 1e6).toISOString().replace('T', ' ').replace('Z', ' UTC');
    return { text: moment(value), title: `${utc}, ${raw} ns` };
  }
  if (number === -1 && UNKNOWN_AS_MINUS_ONE.has(name)) {
    return { text: NONE, title: `${raw}: unknown or none` };
  }
  if (name.endsWith('_ns')) return { text: duration(number), title: `${raw} ns` };
  if (name.endsWith('bytes')) return { text: bytes(number), title: `${raw} bytes` };
  if (RANKS.has(name) || name === 'step' || name.endsWith('_id')) return { text: raw, title: '' };
  return { text: Number.isSafeInteger(number) ? number.toLocaleString('en') : raw, title: '' };
}

/** Number of rows, as far as they were counted. */
export function countSentence(answer) {
  const shown = answer.rows.length;
  const count = (value) => value.toLocaleString('en');
  const elapsed = answer.seconds >= 1 ? `${answer.seconds.toFixed(1)} s`
    : `${Math.max(1, Math.round(answer.seconds * 1000))} ms`;
  const rows = answer.num_rows === 1 ? 'row' : 'rows';
  if (shown === answer.num_rows && answer.is_counted) return `${count(shown)} ${rows} in ${elapsed}`;
  const all = `${answer.is_counted ? '' : 'more than '}${count(answer.num_rows)}`;
  return `first ${count(shown)} of ${all} rows in ${elapsed}; CSV has all`;
}
