/**
 * Data of the plots of training health: rows, columns, smoothing. Pure.
 *
 * @typedef {Object} Health answer of model/health
 * @property {number} height @property {number} width drawn rows and columns
 * @property {Float32Array} value height x width, NaN where not recorded
 * @property {ArrayLike<number>} rowEdges edges of the drawn rows, positions in `rows` @property {ArrayLike<number>} columns
 * @property {ArrayLike<number>} firstStep @property {ArrayLike<number>} lastStep of each column
 * @property {{key: string, layer: number, part: string, head: number, name: string}[]} rows
 * @property {import('../shared/statistic_scale.mjs').Statistic} statistic
 * @property {?Object} axis null: the axis of steps, else data is import('../shared/progress_axis.mjs').Placed
 */
import { blockOf } from '../../lib/canvas/step_axis.mjs';
import { placed } from '../shared/progress_axis.mjs';

/** @returns {Health} */
export function healthData({ arrays, meta }) {
  const { value, rows: rowEdges, columns, first_step: firstStep, last_step: lastStep, place, ...ofRows } = arrays;
  return placed({ ...meta, value, rowEdges, columns, firstStep, lastStep, ofRows }, meta.axis, place);
}

/** Data of model/histogram with the fields that an axis of steps needs. */
export function histogramData({ arrays, meta }) {
  const columns = Array.from({ length: meta.width + 1 }, (_, edge) => edge);
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

/** Drawn row of a key, -1 if it is not there. */
export function drawnRowOf(data, key) {
  const index = data.rows.findIndex((row) => row.key === key);
  return index < 0 ? -1 : blockOf(data.rowEdges, index);
}

/** First and last of the rows that a drawn row stands for. */
export function rowsOf(data, drawn) {
  return [data.rows[data.rowEdges[drawn]], data.rows[data.rowEdges[drawn + 1] - 1]];
}

/** Column that contains a step, or the next column; -1 after the last. */
export function columnOfStep(data, step) {
  for (let column = 0; column < data.width; column++) if (data.lastStep[column] >= step) return column;
  return -1;
}

/**
 * Exponential moving average without bias towards the first value, as in TensorBoard and W&B; gaps
 * stay gaps.
 * @param {ArrayLike<number>} values @param {number} weight 0: unchanged, towards 1: smoother
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

/** First and last step that a column stands for. */
export const stepsOf = (data, column) => [data.firstStep[column], data.lastStep[column]];

/** Rows for the table: those beyond a level first, else in the model's order; at most `most`. */
export function tableRows(data, judge, most = 200) {
  const { last, least, greatest, worst_step: worstStep } = data.ofRows;
  const rows = data.rows.map((row, i) => ({
    row, last: last[i], least: least[i], greatest: greatest[i], worstStep: worstStep[i],
    level: judge(greatest[i]) ?? judge(least[i]),
  }));
  const alarming = rows.filter(({ level }) => level);
  return [...alarming, ...rows.filter(({ level }) => !level)].slice(0, most);
}
