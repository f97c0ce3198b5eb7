/**
 * The strip's arithmetic, apart from the DOM: where a step lies, what a pixel column shows, and how
 * a brush moves. Steps are whole; a brush is [first, last], both included.
 *
 * @typedef {Object} Points
 * @property {ArrayLike<number>} first @property {ArrayLike<number>} last stretch of steps of a point
 * @property {ArrayLike<number>} step the slowest of them @property {ArrayLike<number>} ms its time
 */

/** First and last step there is; null without steps. @param {Points} points */
export function extent(points) {
  const count = points.first.length;
  return count ? [points.first[0], points.last[count - 1]] : null;
}

/**
 * Where steps stand side by side: at their numbers, or, where numbers are left out, at the points'
 * places in order. `place` and `step` lead there and back; `points` have places instead of numbers.
 * @param {Points} points
 * @returns {?{range: [number, number], points: Points, place: (step: number) => number,
 *   step: (place: number) => number}} null without steps
 */
export function axisOf(points) {
  const count = points.first.length;
  if (!count) return null;
  const same = (number) => number;
  let at = 1;
  while (at < count && points.first[at] === points.last[at - 1] + 1) at++;
  if (at === count) return { range: extent(points), points, place: same, step: same };
  const places = Float64Array.from({ length: count }, (_, place) => place);
  const place = (step) => {
    let [low, high] = [0, count];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (points.last[middle] < step) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  return {
    range: [0, count - 1], points: { ...points, first: places, last: places, step: places }, place,
    step: (at) => points.first[Math.min(Math.max(at, 0), count - 1)],
  };
}

/** Left edge of a step, px. @param {[number, number]} range @param {number} width px */
export function xOf(range, width, step) {
  return ((step - range[0]) / (range[1] - range[0] + 1)) * width;
}

/** Step at a pixel, within the range. */
export function stepAt(range, width, x) {
  const step = range[0] + Math.floor((x / width) * (range[1] - range[0] + 1));
  return Math.min(Math.max(step, range[0]), range[1]);
}

/** Index of the point whose stretch holds this step, else -1. */
export function pointAt(points, step) {
  let [low, high] = [0, points.first.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (points.last[middle] < step) low = middle + 1;
    else if (points.first[middle] > step) high = middle - 1;
    else return middle;
  }
  return -1;
}

/**
 * Greatest time of every pixel column, NaN where there is none: a lone slow step stays visible.
 * @param {Points} points @returns {Float64Array}
 */
export function columns(points, range, width) {
  const found = new Float64Array(width).fill(NaN);
  for (let i = 0; i < points.first.length; i++) {
    const value = points.ms[i];
    if (Number.isNaN(value)) continue;
    const from = Math.floor(xOf(range, width, points.first[i]));
    const to = Math.max(Math.ceil(xOf(range, width, points.last[i] + 1)), from + 1);
    for (let x = from; x < Math.min(to, width); x++) {
      if (!(found[x] >= value)) found[x] = value;
    }
  }
  return found;
}

/**
 * Top of the scale, ms: what nearly all steps stay below, so that a first step of seconds does not
 * flatten the rest. @param {Points} points @param {?number} median
 */
export function ceiling(points, median) {
  const values = Array.from(points.ms).filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  if (!values.length) return 1;
  const high = values[Math.floor(0.97 * (values.length - 1))];
  return Math.min(Math.max(high * 1.15, (median ?? 0) * 1.6), values[values.length - 1] * 1.15) || 1;
}

/** Brush from two steps in any order. */
export function brush(a, b) {
  return a <= b ? [a, b] : [b, a];
}

/**
 * Brush after an arrow key. Without one the newest step is taken first.
 * @param {?[number, number]} steps @param {-1|1} by @param {boolean} widen move the last step only
 */
export function moved(steps, range, by, widen) {
  if (steps === null) return [range[1], range[1]];
  const [first, last] = steps;
  if (widen) return [first, Math.min(Math.max(last + by, first), range[1])];
  const shift = by > 0 ? Math.min(by, range[1] - last) : Math.max(by, range[0] - first);
  return [first + shift, last + shift];
}

/** Marks of the pixel column of a step: within `reach` steps of it. */
export function marksNear(marks, step, reach) {
  return marks.filter((mark) => Math.abs(mark.step - step) <= reach);
}

/** Steps to label below: at most `most`, round ones. */
export function ticks(range, most) {
  const span = range[1] - range[0] + 1;
  let size = 1;
  for (let power = 1; span / size > most; power *= 10) {
    size = [2, 5, 10].map((factor) => factor * power).find((one) => span / one <= most) ?? 10 * power;
  }
  const found = [];
  for (let step = Math.ceil(range[0] / size) * size; step <= range[1]; step += size) found.push(step);
  return found;
}
