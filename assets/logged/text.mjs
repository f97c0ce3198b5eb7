/**
 * Numbers that the job logged by step: lines in a box, and what is said of them. Pure.
 *
 * @typedef {Object} Series a column stands for the steps first..last
 * @property {Float64Array} first @property {Float64Array} last @property {Float64Array} mean NaN: none is finite
 * @property {Float64Array} least @property {Float64Array} greatest @property {Uint32Array} bad not finite
 * @typedef {Object} Said of app/views/run/logged.py
 * @property {number} step newest @property {?number} value of it; null: not finite
 * @property {?number} highest @property {?number} highest_step @property {number} num_bad @property {?number} first_bad
 */
import { formatNumber } from '../lib/value_text.mjs';

export const TITLES = { loss: 'Loss', grad_norm: 'Gradient norm', lr: 'Learning rate' };
const ARRAYS = ['first', 'last', 'mean', 'least', 'greatest', 'bad'];

/** The series of a number. @param {Object} arrays of the answer @param {string} name @returns {Series} */
export const seriesOf = (arrays, name) => Object.fromEntries(ARRAYS.map((array) => [array, arrays[`${name}_${array}`]]));

/** Least and greatest finite value as text; empty without one. @param {Series} series */
export function extremes({ least, greatest }) {
  const lows = Array.from(least).filter(Number.isFinite);
  if (!lows.length) return ['', ''];
  const highs = Array.from(greatest).filter(Number.isFinite);
  return [Math.min(...lows), Math.max(...highs)].map((value) => formatNumber(shortened(value)));
}

/** x of a column's middle, from 0 to `width`. @param {Series} series */
export function xOf({ first, last }, column, width) {
  const [from, to] = [first[0], last[last.length - 1]];
  return to === from ? width / 2 : (width * ((first[column] + last[column]) / 2 - from)) / (to - from);
}

/** Lines through the means, as an SVG path: columns without a finite value break it. */
export function linePath(series, scale, { width, height }) {
  let isOn = false;
  return Array.from(series.mean, (value, column) => {
    if (!Number.isFinite(value)) { isOn = false; return ''; }
    const [x, y] = [xOf(series, column, width).toFixed(1), (height * (1 - scale.share(value))).toFixed(1)];
    const isAlone = !isOn && !Number.isFinite(series.mean[column + 1]);
    const move = isOn ? 'L' : 'M';
    isOn = true;
    return `${move}${x} ${y}${isAlone ? 'h.01' : ''}`;
  }).join('');
}

/** From the least to the greatest of each column, as an SVG path: a spike is seen however many steps a column has. */
export function rangePath(series, scale, { width, height }) {
  return Array.from(series.least, (low, column) => {
    const high = series.greatest[column];
    if (!(high > low)) return '';
    return `M${xOf(series, column, width).toFixed(1)} ${(height * (1 - scale.share(low))).toFixed(1)}V${(height * (1 - scale.share(high))).toFixed(1)}`;
  }).join('');
}

/** Where values are not finite, as an SVG path over the whole height. */
export const badPath = (series, { width, height }) => Array.from(series.bad, (count, column) => (
  count ? `M${xOf(series, column, width).toFixed(1)} 0V${height}` : '')).join('');

/** "5.122 in step 11, highest 6.268 in step 0". @param {Said} said */
export function newest({ step, value, highest, highest_step: at }) {
  const now = `${value === null ? 'not finite' : formatNumber(shortened(value))} in step ${step.toLocaleString('en')}`;
  return highest === null || at === step ? now : `${now}, highest ${formatNumber(shortened(highest))} in step ${at.toLocaleString('en')}`;
}

/** "NaN or infinite in 3 steps, first in step 12"; empty without any. @param {Said} said */
export const badText = ({ num_bad: count, first_bad: first }) => (
  !count ? '' : count === 1 ? `NaN or infinite in step ${first.toLocaleString('en')}`
    : `NaN or infinite in ${count.toLocaleString('en')} steps, first in step ${first.toLocaleString('en')}`);

/** The newest columns of all series, newest first: [steps, text of each number]. @param {Object<string, Series>} all */
export function rows(all, most) {
  const texts = new Map();
  for (const [name, { first, last, mean, bad }] of Object.entries(all)) {
    for (let column = Math.max(0, first.length - most); column < first.length; column++) {
      const steps = first[column] === last[column] ? first[column].toLocaleString('en') : `${first[column].toLocaleString('en')} to ${last[column].toLocaleString('en')}`;
      const key = `${last[column]} ${steps}`;
      if (!texts.has(key)) texts.set(key, { last: last[column], steps, values: {} });
      texts.get(key).values[name] = Number.isFinite(mean[column])
        ? `${formatNumber(shortened(mean[column]))}${bad[column] ? ', some not finite' : ''}` : 'not finite';
    }
  }
  return [...texts.values()].sort((a, b) => b.last - a.last).slice(0, most)
    .map(({ steps, values }) => [steps, ...Object.keys(all).map((name) => values[name] ?? 'not logged')]);
}

const shortened = (value) => Number(value.toPrecision(4));
