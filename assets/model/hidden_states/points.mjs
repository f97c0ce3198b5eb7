/**
 * Points of hidden states: layers, tokens, two axes. Pure.
 *
 * @typedef {Object} Points answer of model/states
 * @property {Float32Array} point layer by layer, token by token, two values each
 * @property {number[]} layers @property {number[]} tokens @property {number[]} shares
 * @property {{kind: string, step: number, num_fitted: number}} axes @property {number} step
 */

const LITTLE = 0.1;  // of two axes among many

/** Where token number `at` is in layer number `row`; null: nowhere. */
export function pointAt({ point, tokens }, row, at) {
  const first = 2 * (row * tokens.length + at);
  const [x, y] = [point[first], point[first + 1]];
  return Number.isFinite(x) && Number.isFinite(y) ? [x, y] : null;
}

/** A token's way through the layers: the layers it is known in, and where. */
export function pathOf(points, at) {
  return points.layers.map((layer, row) => ({ layer, row, point: pointAt(points, row, at) })).filter(({ point }) => point);
}

/** Least and greatest of both axes over all layers, with a margin: the same for each of them. */
export function extentOf({ point }) {
  const ranges = [[Infinity, -Infinity], [Infinity, -Infinity]];
  point.forEach((value, at) => {
    if (!Number.isFinite(value)) return;
    const range = ranges[at % 2];
    range[0] = Math.min(range[0], value);
    range[1] = Math.max(range[1], value);
  });
  return ranges.map(([low, high]) => {
    if (low > high) return [-1, 1];
    const margin = (high - low) * 0.06 || Math.abs(low) * 0.06 || 1;
    return [low - margin, high + margin];
  });
}

/** Token number of the point nearest to a place in the plot, where one is within `near` of it. */
export function nearest(points, row, place, target, near) {
  let [best, distance] = [null, near];
  points.tokens.forEach((_, at) => {
    const point = pointAt(points, row, at);
    if (!point) return;
    const { x, y } = place(point);
    const away = Math.hypot(x - target.x, y - target.y);
    if (away <= distance) [best, distance] = [at, away];
  });
  return best;
}

/** What the axes are, for people. */
export function axesText({ axes, step, shares }) {
  const percent = shares.map((share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`).join(' and ');
  const what = axes.kind === 'random' ? `Two random directions, centre of step ${axes.step}`
    : `First two principal components of ${axes.num_fitted.toLocaleString('en')} states of step ${axes.step}${axes.step === step ? '' : ', the same for every step'}`;
  const isFar = axes.kind !== 'random' && axes.step !== step && shares.reduce((sum, share) => sum + share, 0) < LITTLE;
  return `${what}; they hold ${percent} of the squared distance from its centre in step ${step}${isFar ? ': little, keep the axes of this step to see more' : ''}`;
}
