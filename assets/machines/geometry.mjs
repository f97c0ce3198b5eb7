/**
 * Where the cells of a map of hosts lie, in CSS pixels. Pure.
 *
 * @typedef {{name: string, title: string, unit: string, doc: string, kind: string}} Column
 * @typedef {{hosts: string[], columns: Column[], code: Uint8Array, value: Float32Array, least: Float32Array,
 *   most: Float32Array, compares: boolean, num_hosts: number, medians: (number|null)[]}} MapData
 * @typedef {{plot: {x: number, y: number, w: number, h: number}, wide: number, high: number, height: number,
 *   isFlat: boolean}} Geometry
 */

const LEFT = 96;
const TOP = 118;
const FLAT = { wide: 118, top: 20 };  // columns that have room for their titles
const MOST_HEIGHT = 640;
const ROW = 18;
const LABEL = 13;

/** @param {MapData} data @returns {Geometry} */
export function geometryOf(data, width) {
  const rows = data.hosts.length;
  const left = Math.min(LEFT, width * 0.3);
  const w = Math.max(width - left - 60, 40);
  const wide = w / data.columns.length;
  const h = Math.min(rows * ROW, MOST_HEIGHT);
  const isFlat = wide >= FLAT.wide;
  const top = isFlat ? FLAT.top : wide < 12 ? 8 : TOP;
  return { plot: { x: left, y: top, w, h }, wide, high: h / rows, height: top + h + 8, isFlat };
}

/** Rows that get a label, so that labels do not overlap. */
export function hostTicks(count, high) {
  const every = Math.max(1, Math.ceil(LABEL / high));
  return Array.from({ length: Math.ceil(count / every) }, (_, i) => i * every);
}

/** Cells with a value, the strongest colours last: what is too low for a pixel of its own stays seen. */
export function drawingOrder(code) {
  const found = [];
  code.forEach((one, at) => { if (one) found.push(at); });
  return found.sort((a, b) => (code[a] >> 1) - (code[b] >> 1));
}

/** @returns {?{row: number, column: number}} */
export function cellAt(data, { plot, wide, high }, { x, y }) {
  const column = Math.floor((x - plot.x) / wide);
  const row = Math.floor((y - plot.y) / high);
  const inside = row >= 0 && column >= 0 && row < data.hosts.length && column < data.columns.length;
  return inside ? { row, column } : null;
}

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/** The cell that an arrow key leads to, the first one from nowhere. */
export function movedCell(data, cell, key) {
  if (!cell) return { row: 0, column: 0 };
  const [down, right] = STEPS[key];
  const within = (value, count) => Math.min(Math.max(value, 0), count - 1);
  return { row: within(cell.row + down, data.hosts.length), column: within(cell.column + right, data.columns.length) };
}
