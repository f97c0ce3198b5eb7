/**
 * What the views of training health share: their data, steps on an axis, smoothing. Pure.
 *
 * @typedef {Object} Health answer of model/health
 * @property {number} height @property {number} width drawn rows and columns
 * @property {Float32Array} value height x width, NaN where not recorded
 * @property {ArrayLike<number>} rowEdges positions in `rows` @property {ArrayLike<number>} columns
 * @property {ArrayLike<number>} firstStep @property {ArrayLike<number>} lastStep of each column
 * @property {{key: string, layer: number, part: string, head: number, name: string}[]} rows
 * @property {import('../shared/statistic_scale.mjs').Statistic} statistic
 * @property {?Object} axis null: that of steps, else data is import('../shared/progress_axis.mjs').Placed
 */
import { blockOf } from '../../lib/canvas/step_axis.mjs';
import { placed } from '../shared/progress_axis.mjs';

/** @returns {Health} */
export function healthData({ arrays, meta }) {
  const { value, rows: rowEdges, columns, first_step: firstStep, last_step: lastStep, place, ...ofRows } = arrays;
  return placed({ ...meta, value, rowEdges, columns, firstStep, lastStep, ofRows }, meta.axis, place);
}

/** Data of model/histogram with the fields that axes of steps need. */
export function histogramData({ arrays, meta }) {
  const columns = Array.from({ length: meta.width + 1 }, (_, at) => at);
  const data = { ...meta, share: arrays.share, firstStep: arrays.first_step, lastStep: arrays.last_step, columns };
  return placed(data, meta.axis, arrays.place);
}

/** "layer 3", "layer 3, mlp", "layer 3, head 5", "embedding" */
export function rowText({ layer, part, head }) {
  if (layer < 0) return part || 'outside of layers';
  if (head >= 0) return `layer ${layer}, head ${head}`;
  return part ? `layer ${layer}, ${part}` : `layer ${layer}`;
}

/** The same for an axis: "3", "3 mlp", "3 · 5". */
export function rowLabel({ layer, part, head }) {
  if (layer < 0) return part;
  if (head >= 0) return `${layer} · ${head}`;
  return part ? `${layer} ${part}` : String(layer);
}

/** Drawn row of a key, -1: it is not there. */
export function drawnRowOf(data, key) {
  const at = data.rows.findIndex((row) => row.key === key);
  return at < 0 ? -1 : blockOf(data.rowEdges, at);
}

/** The first of the rows a drawn row stands for, and the last. */
export function rowsOf(data, drawn) {
  return [data.rows[data.rowEdges[drawn]], data.rows[data.rowEdges[drawn + 1] - 1]];
}

/** Column in which a step lies, or the next one; -1: after all. */
export function columnOfStep(data, step) {
  for (let at = 0; at < data.width; at++) if (data.lastStep[at] >= step) return at;
  return -1;
}

/**
 * Exponential moving average without the pull towards the first value (as TensorBoard and W&B
 * smooth); gaps stay gaps.
 * @param {ArrayLike<number>} values @param {number} weight 0: as they are, towards 1: smoother
 */
export function smoothed(values, weight) {
  let [mean, scale] = [0, 0];
  return Array.from(values, (value) => {
    if (!Number.isFinite(value)) return NaN;
    mean = mean * weight + value * (1 - weight);
    scale = scale * weight + 1 - weight;
    return mean / scale;
  });
}

/** Steps a column stands for. */
export const stepsOf = (data, column) => [data.firstStep[column], data.lastStep[column]];

/** Rows for the table: those beyond a level first, else in the model's order; at most `most`. */
export function tableRows(data, judge, most = 200) {
  const { last, least, greatest, worst_step: worstStep } = data.ofRows;
  const rows = data.rows.map((row, at) => ({
    row, last: last[at], least: least[at], greatest: greatest[at], worstStep: worstStep[at],
    level: judge(greatest[at]) ?? judge(least[at]),
  }));
  const bad = rows.filter(({ level }) => level);
  return [...bad, ...rows.filter(({ level }) => !level)].slice(0, most);
}
