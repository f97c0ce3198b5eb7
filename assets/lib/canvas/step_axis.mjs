/**
 * Where steps lie on a canvas. Pure. `data` is whatever is drawn over steps: the columns that are drawn,
 * the edges of these columns, and the first and the last step that each stands for.
 *
 * @typedef {Object} StepColumns
 * @property {number} width drawn columns
 * @property {ArrayLike<number>} columns edges of the drawn columns, positions among the recorded steps
 * @property {ArrayLike<number>} firstStep @property {ArrayLike<number>} lastStep numbers of the steps of
 *   each drawn column: numbers may have gaps, which have no place on the canvas
 */
import { niceTicks } from './ticks.mjs';

/** Index of the last edge <= value. */
export function blockOf(edges, value) {
  let [low, high] = [0, edges.length - 2];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (edges[middle] <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Number of steps that the columns stand for (of a map of hosts: slots in a host). */
export function stepCount(data) {
  return data.columns[data.columns.length - 1];
}

/** First and last step of the window, both included. */
export function stepRange(data) {
  return [data.firstStep[0], data.lastStep[data.lastStep.length - 1]];
}

/** x of the left side of a column, which may be a fraction. */
export function xOfColumn(data, geometry, column) {
  return geometry.plot.x + geometry.plot.w * column / stepCount(data);
}

/** x of the left side of a step, or of the next step if it was not recorded. */
export function xOfStep(data, geometry, step) {
  let [low, high] = [0, data.width];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (data.lastStep[middle] < step) low = middle + 1;
    else high = middle;
  }
  if (low === data.width) return xOfColumn(data, geometry, stepCount(data));
  const [first, last] = [data.firstStep[low], data.lastStep[low]];
  const share = Math.max(0, step - first) / (last - first + 1);
  return xOfColumn(data, geometry, data.columns[low] + share * (data.columns[low + 1] - data.columns[low]));
}

/**
 * Steps to label and the x of their middle: round numbers if no step is missing, else the steps of
 * evenly spaced columns.
 * @returns {{x: number, step: number}[]}
 */
export function stepTicks(data, geometry, most) {
  const count = stepCount(data);
  if (!data.width || !count) return [];
  const [first, last] = stepRange(data);
  const half = geometry.plot.w / count / 2;
  if (last - first + 1 === count) {
    return niceTicks(first, last, most).map((step) => ({ x: xOfStep(data, geometry, step) + half, step }));
  }
  return niceTicks(0, data.width - 1, most)
    .map((column) => ({ x: xOfColumn(data, geometry, data.columns[column]) + half, step: data.firstStep[column] }));
}
