/**
 * Where the cells of a map of layers x experts lie, and the lines of a chart over steps, in CSS pixels. Pure.
 *
 * @typedef {{layer: number, name: string, router: number, num_routers: number, experts: number}} Layer
 * @typedef {{layers: Layer[], experts: number, code: Uint8Array, load: Float32Array, tokens: Float64Array,
 *   holder: Int32Array}} MapData arrays: layers x experts, row by row; `experts`: of the widest layer
 * @typedef {{plot: {x: number, y: number, w: number, h: number}, wide: number, high: number, height: number}} Geometry
 */
import { niceTicks } from '../lib/canvas/ticks.mjs';

const LEFT = 52;
const RIGHT = 10;
const TOP = 4;
const BELOW = 32;  // numbers of the experts and what they are
const MOST_HEIGHT = 620;
const [LEAST_ROW, MOST_ROW] = [6, 22];
const LABEL = 13;

/** @param {MapData} data @returns {Geometry} */
export function geometryOf(data, width) {
  const rows = data.layers.length;
  const row = Math.min(MOST_ROW, Math.max(LEAST_ROW, MOST_HEIGHT / rows));
  const plot = { x: LEFT, y: TOP, w: Math.max(width - LEFT - RIGHT, 40), h: rows * row };
  return { plot, wide: plot.w / data.experts, high: row, height: TOP + plot.h + BELOW };
}

/** Rows that get a label, so that labels do not overlap. */
export function rowTicks(count, high) {
  const every = Math.max(1, Math.ceil(LABEL / high));
  return Array.from({ length: Math.ceil(count / every) }, (_, i) => i * every);
}

/** Experts that get a label. */
export const expertTicks = (experts, width) => niceTicks(0, experts - 1, width / 44);

/** @returns {?{row: number, expert: number}} */
export function cellAt(data, { plot, wide, high }, { x, y }) {
  const [row, expert] = [Math.floor((y - plot.y) / high), Math.floor((x - plot.x) / wide)];
  const inside = row >= 0 && expert >= 0 && row < data.layers.length && expert < data.layers[row].experts;
  return inside ? { row, expert } : null;
}

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const within = (value, count) => Math.min(Math.max(value, 0), count - 1);

/** The cell that an arrow key leads to, the first one from nowhere. */
export function movedCell(data, cell, key) {
  if (!cell) return { row: 0, expert: 0 };
  const [down, right] = MOVES[key];
  const row = within(cell.row + down, data.layers.length);
  return { row, expert: within(cell.expert + right, data.layers[row].experts) };
}

/** Cells with a value, the strongest colours last: where cells are narrower than a pixel they stay seen. */
export function drawingOrder(code) {
  const found = [];
  code.forEach((one, at) => { if (one) found.push(at); });
  return found.sort((a, b) => (code[a] >> 1) - (code[b] >> 1));
}

/**
 * Scales of a chart over steps.
 * @param {ArrayLike<number>} steps @param {number} top greatest value
 */
export function chartOf(steps, top, width, height) {
  const plot = { x: LEFT, y: 8, w: Math.max(width - LEFT - RIGHT, 40), h: height - 8 - BELOW };
  const [first, last] = [steps[0], steps[steps.length - 1]];
  return {
    plot, first, last, top,
    x: (step) => plot.x + (last > first ? plot.w * (step - first) / (last - first) : plot.w / 2),
    y: (value) => plot.y + plot.h * (1 - Math.min(value, top) / top),
  };
}

/** Position of the step that is next to an x. */
export function stepAt(steps, chart, x) {
  let best = 0;
  for (let i = 1; i < steps.length; i++) {
    if (Math.abs(chart.x(steps[i]) - x) < Math.abs(chart.x(steps[best]) - x)) best = i;
  }
  return best;
}
