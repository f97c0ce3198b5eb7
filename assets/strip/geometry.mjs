/**
 * Arithmetic of the strip: where a step lies, what a pixel column shows, and how the brush moves. Pure.
 * A brush is [first, last], both included.
 *
 * @typedef {Object} Points
 * @property {ArrayLike<number>} first @property {ArrayLike<number>} last steps that a point stands for
 * @property {ArrayLike<number>} step the slowest of them @property {ArrayLike<number>} ms its time
 */

const MOST_TRIED = 200;  // labels of clipped bars that are tried for a place
const MOST_UNDERLINES = 4;

/** First and last step; null without steps. @param {Points} points */
export function extent(points) {
  const count = points.first.length;
  return count ? [points.first[0], points.last[count - 1]] : null;
}

/**
 * The axis of the strip: a step lies at its number or, if steps are missing, at the position of its point.
 * `place` maps a step to its position, `step` maps it back; `points` have positions instead of numbers.
 * @param {Points} points
 * @returns {?{range: [number, number], points: Points, place: (step: number) => number,
 *   step: (place: number) => number}} null without steps
 */
export function axisOf(points) {
  const count = points.first.length;
  if (!count) return null;
  const identity = (number) => number;
  let consecutive = 1;
  while (consecutive < count && points.first[consecutive] === points.last[consecutive - 1] + 1) consecutive++;
  if (consecutive === count) return { range: extent(points), points, place: identity, step: identity };
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
    step: (position) => points.first[Math.min(Math.max(position, 0), count - 1)],
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

/** Index of the point that stands for this step, else -1. */
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
 * Greatest time of each pixel column, so that a single slow step stays visible; NaN without a step.
 * @param {Points} points @returns {Float64Array}
 */
export function columns(points, range, width) {
  const greatest = new Float64Array(width).fill(NaN);
  for (let i = 0; i < points.first.length; i++) {
    const value = points.ms[i];
    if (Number.isNaN(value)) continue;
    const from = Math.floor(xOf(range, width, points.first[i]));
    const to = Math.max(Math.ceil(xOf(range, width, points.last[i] + 1)), from + 1);
    for (let x = from; x < Math.min(to, width); x++) {
      if (!(greatest[x] >= value)) greatest[x] = value;
    }
  }
  return greatest;
}

/**
 * Top of the scale, ms: nearly all steps are below it, so that a first step of seconds does not flatten
 * the others. @param {Points} points @param {?number} median
 */
export function ceiling(points, median) {
  const values = Array.from(points.ms).filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  if (!values.length) return 1;
  const high = values[Math.floor(0.97 * (values.length - 1))];
  return Math.min(Math.max(high * 1.15, (median ?? 0) * 1.6), values[values.length - 1] * 1.15) || 1;
}

/** Points above the top of the scale: place on the axis and time. @param {Points} points those of the axis */
export function clippedBars(points, top) {
  const bars = [];
  for (let i = 0; i < points.ms.length; i++) {
    if (points.ms[i] > top) bars.push({ place: points.step[i], ms: points.ms[i] });
  }
  return bars;
}

/**
 * Places of labels that do not overlap, between two ends; the greatest times come first.
 * @param {{text: string, ms: number, middle: number}[]} bars @param {(text: string) => number} room
 * @returns {{text: string, left: number, width: number}[]}
 */
export function placeLabels(bars, room, from, to) {
  const placed = [];
  for (const { text, middle } of [...bars].sort((a, b) => b.ms - a.ms).slice(0, MOST_TRIED)) {
    const width = room(text);
    const left = Math.min(Math.max(middle - width / 2, from), to - width);
    if (placed.every((other) => left >= other.left + other.width || left + width <= other.left)) {
      placed.push({ text, left, width });
    }
  }
  return placed;
}

/**
 * Row of the underline of each stretch, 0 uppermost: stretches of one row do not overlap, up to the last
 * row, which takes what is left. @param {{first: number, last: number}[]} stretches
 */
export function underlineRows(stretches) {
  const ends = [];
  return stretches.map(({ first, last }) => {
    const free = ends.findIndex((steps) => steps.every((other) => last < other.first || first > other.last));
    const row = free >= 0 ? free : Math.min(ends.length, MOST_UNDERLINES - 1);
    (ends[row] ??= []).push({ first, last });
    return row;
  });
}

/** Brush between two steps in any order. */
export function brush(a, b) {
  return a <= b ? [a, b] : [b, a];
}

/**
 * Brush after an arrow key; without a brush, the newest step.
 * @param {?[number, number]} steps @param {-1|1} by @param {boolean} widen: move only the last step
 */
export function moved(steps, range, by, widen) {
  if (steps === null) return [range[1], range[1]];
  const [first, last] = steps;
  if (widen) return [first, Math.min(Math.max(last + by, first), range[1])];
  const shift = by > 0 ? Math.min(by, range[1] - last) : Math.max(by, range[0] - first);
  return [first + shift, last + shift];
}

/** Marks within `reach` steps of a step. */
export function marksNear(marks, step, reach) {
  return marks.filter((mark) => Math.abs(mark.step - step) <= reach);
}

/** Round numbers of steps to label, at most `most`. */
export function ticks(range, most) {
  const span = range[1] - range[0] + 1;
  let size = 1;
  for (let power = 1; span / size > most; power *= 10) {
    size = [2, 5, 10].map((factor) => factor * power).find((candidate) => span / candidate <= most) ?? 10 * power;
  }
  const steps = [];
  for (let step = Math.ceil(range[0] / size) * size; step <= range[1]; step += size) steps.push(step);
  return steps;
}
