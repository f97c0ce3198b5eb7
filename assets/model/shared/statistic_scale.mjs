/**
 * Axis positions, colours and alarm levels of the values of a statistic. Pure.
 *
 * @typedef {Object} Level app/views/model/tensor_levels.py
 * @property {number} value @property {'fault'|'warn'|'usual'} severity @property {boolean} is_above
 * @property {string} text @property {string} source
 * @typedef {Object} Statistic
 * @property {string} name @property {string} title @property {'log'|'linear'|'count'|'signed'} scale
 * @property {Level[]} levels
 * @typedef {Object} Scale
 * @property {(value: number) => number} share 0..1 along the scale
 * @property {{at: number, text: string}[]} ticks at: 0..1
 */
import { formatNumber } from '../../lib/value_text.mjs';
import { NO_DATA, STRONGEST } from '../../lib/canvas/colour.mjs';
import { niceTicks } from '../../lib/canvas/ticks.mjs';

const SEVERITIES = ['fault', 'warn'];
/** Bytes of lib/canvas/colour.mjs for cells beyond a level: the strongest of the other arm, and half of it. */
export const FAULT = 2 * STRONGEST + 1;
export const WARN = 2 * Math.round(STRONGEST / 2) + 1;

/** The worst level that a value has passed, null for none. @returns {?Level} */
export function passed(value, levels) {
  if (value === null || Number.isNaN(value)) return null;
  const beyond = levels.filter((level) => (
    SEVERITIES.includes(level.severity) && (level.is_above ? value > level.value : value < level.value)));
  return beyond.sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity))[0] ?? null;
}

/** Least and greatest of the values that the scale can show; null without any. */
export function rangeOf(statistic, values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value) || (statistic.scale === 'log' && value <= 0)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}

/** @param {Statistic} statistic @param {?[number, number]} range @returns {Scale} */
export function makeScale(statistic, range) {
  if (statistic.scale === 'log') return logScale(range ?? [1, 10]);
  if (statistic.scale === 'linear') return linearScale(0, 1);
  if (statistic.scale === 'count') return linearScale(0, Math.max(1, range?.[1] ?? 1));
  const greatest = Math.max(...(range ?? [0, 1]).map(Math.abs)) || 1;
  return linearScale(-greatest, greatest);
}

function logScale([low, high]) {
  let [from, to] = [Math.log10(low), Math.log10(high)];
  if (to - from < 0.1) [from, to] = [from - 0.05, to + 0.05];
  const share = (value) => Math.min(1, Math.max(0, (Math.log10(value) - from) / (to - from)));
  const powers = to - from >= 1.5
    ? niceTicks(Math.ceil(from), Math.floor(to), 5).map((power) => ({ at: share(10 ** power), text: `1e${power}` })) : [];
  const ends = [0, 0.5, 1].map((at) => ({ at, text: formatNumber(Number((10 ** (from + at * (to - from))).toPrecision(3))) }));
  return { share: (value) => (value > 0 ? share(value) : 0), ticks: powers.length > 1 ? powers : ends };
}

function linearScale(low, high) {
  const share = (value) => Math.min(1, Math.max(0, (value - low) / (high - low)));
  return {
    share,
    ticks: [0, 0.25, 0.5, 0.75, 1].map((at) => ({ at, text: formatNumber(Number((low + at * (high - low)).toPrecision(3))) })),
  };
}

/** Byte of lib/canvas/colour.mjs of a value: its position on the scale, or the level it has passed. */
export function codeOfValue(value, statistic, scale) {
  if (Number.isNaN(value)) return NO_DATA;
  const level = passed(value, statistic.levels);
  if (level) return level.severity === 'fault' ? FAULT : WARN;
  const share = statistic.scale === 'signed' ? Math.abs(2 * scale.share(value) - 1) : scale.share(value);
  return 2 * Math.max(1, Math.round(share * STRONGEST));
}

/** "above 1e4: runs above 1e4 diverged" */
export function levelText(level) {
  if (level.severity === 'usual') return level.text;
  return `${level.is_above ? 'above' : 'below'} ${formatNumber(level.value)}: ${level.text}`;
}
