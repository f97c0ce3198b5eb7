/**
 * Points of hidden states: layers, tokens, two axes. Pure.
 *
 * @typedef {Object} Points answer of model/states
 * @property {Float32Array} point layer by layer, token by token, two values each
 * @property {number[]} layers @property {number[]} tokens @property {number[]} shares
 * @property {{kind: string, step: number, num_fitted: number}} axes @property {number} step
 */

const SMALL_SHARE = 0.1;  // of the squared distance in two axes

/** Point of the token at `index` in the layer at `row`; null if unknown. */
export function pointAt({ point, tokens }, row, index) {
  const first = 2 * (row * tokens.length + index);
  const [x, y] = [point[first], point[first + 1]];
  return Number.isFinite(x) && Number.isFinite(y) ? [x, y] : null;
}

/** Path of a token through the layers in which its point is known. */
export function pathOf(points, index) {
  return points.layers.map((layer, row) => ({ layer, row, point: pointAt(points, row, index) })).filter(({ point }) => point);
}

/** Least and greatest of both axes over all layers, with a margin: the same for each of them. */
export function extentOf({ point }) {
  const ranges = [[Infinity, -Infinity], [Infinity, -Infinity]];
  point.forEach((value, i) => {
    if (!Number.isFinite(value)) return;
    const range = ranges[i % 2];
    range[0] = Math.min(range[0], value);
    range[1] = Math.max(range[1], value);
  });
  return ranges.map(([low, high]) => {
    if (low > high) return [-1, 1];
    const margin = (high - low) * 0.06 || Math.abs(low) * 0.06 || 1;
    return [low - margin, high + margin];
  });
}

/** Index of the token whose point is nearest to a target in the plot, if one is within `near` of it. */
export function nearest(points, row, positionOf, target, near) {
  let [best, distance] = [null, near];
  points.tokens.forEach((_, index) => {
    const point = pointAt(points, row, index);
    if (!point) return;
    const { x, y } = positionOf(point);
    const pointDistance = Math.hypot(x - target.x, y - target.y);
    if (pointDistance <= distance) [best, distance] = [index, pointDistance];
  });
  return best;
}

/** Description of the axes. */
export function axesText({ axes, step, shares }) {
  const percent = shares.map((share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`).join(' and ');
  const what = axes.kind === 'random' ? `Two random directions, centre of step ${axes.step}`
    : `First two principal components of ${axes.num_fitted.toLocaleString('en')} states of step ${axes.step}${axes.step === step ? '' : ', the same for every step'}`;
  const isFar = axes.kind !== 'random' && axes.step !== step && shares.reduce((sum, share) => sum + share, 0) < SMALL_SHARE;
  return `${what}; they hold ${percent} of the squared distance from its centre in step ${step}${isFar ? ', which is little: use the axes of this step to see more' : ''}`;
}
