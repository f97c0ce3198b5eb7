/**
 * Where the cells of a heat map lie on the canvas. Pure: no DOM. All lengths in CSS pixels.
 *
 * @typedef {Object} Geometry
 * @property {number} width @property {number} height of the canvas
 * @property {{x: number, y: number, w: number, h: number}} plot
 *
 * @typedef {Object} HeatData
 * @property {Uint8Array} code height x width bytes, row by row
 * @property {number} height @property {number} width drawn rows and columns
 * @property {ArrayLike<number>} rank global rank of each row of the window
 * @property {ArrayLike<number>} rows edges of the drawn rows, positions in `rank`
 * @property {ArrayLike<number>} steps edges of the drawn columns, steps
 * @property {[number, number]} window positions of the first and last row among all rows
 * @property {number} numRows of the whole map @property {[number, number]} allSteps
 * @property {{at: number, label: string}[]} marks borders between rows that belong together
 * @property {?Float32Array} value @property {?Float32Array} peers
 * @property {Object} legend @property {string} order
 */

/** @returns {Geometry} */
export function geometryOf(width, height, { rowLabel = 44 } = {}) {
  const plot = { x: rowLabel, y: 6, w: Math.max(1, width - rowLabel - 10), h: Math.max(1, height - 44) };
  return { width, height, plot };
}

/** HeatData of an unpacked answer of ranks/heat. */
export function heatData({ arrays, meta }, order) {
  return {
    code: arrays.code, rank: arrays.rank, rows: arrays.rows, steps: arrays.steps,
    value: arrays.value ?? null, peers: arrays.peers ?? null, height: meta.height, width: meta.width,
    window: meta.rows, numRows: meta.num_rows, allSteps: meta.all_steps, legend: meta.legend,
    marks: meta.marks, order,
  };
}

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

/** x of a step's left side. */
export function xOfStep(data, geometry, step) {
  const { plot } = geometry;
  const first = data.steps[0];
  const count = data.steps[data.steps.length - 1] - first;
  return plot.x + plot.w * (step - first) / count;
}

/** y of the upper side of the row at a position in data.rank. */
export function yOfRow(data, geometry, position) {
  return geometry.plot.y + geometry.plot.h * position / data.rank.length;
}

/**
 * The drawn block below a point, or null outside of the plot.
 * @returns {?{row: number, column: number, rows: [number, number], steps: [number, number],
 *   ranks: number[], code: number}} rows: positions in data.rank, steps: both included
 */
export function blockAt(data, geometry, x, y) {
  const { plot } = geometry;
  const inside = x >= plot.x && x < plot.x + plot.w && y >= plot.y && y < plot.y + plot.h;
  if (!inside || data.width === 0 || data.height === 0) return null;
  const position = Math.floor((y - plot.y) / plot.h * data.rank.length);
  const step = data.steps[0]
    + Math.floor((x - plot.x) / plot.w * (data.steps[data.steps.length - 1] - data.steps[0]));
  const [row, column] = [blockOf(data.rows, position), blockOf(data.steps, step)];
  return {
    row, column, code: data.code[row * data.width + column],
    rows: [data.rows[row], data.rows[row + 1] - 1], steps: [data.steps[column], data.steps[column + 1] - 1],
    ranks: [data.rank[data.rows[row]], data.rank[data.rows[row + 1] - 1]],
  };
}

/**
 * The rows and steps of a rectangle that was dragged; null where it is too small to be meant.
 * @returns {?{rows: [number, number], steps: [number, number]}} rows: among all rows
 */
export function zoomOf(data, geometry, from, to, least = 6) {
  const { plot } = geometry;
  const clampX = (x) => Math.min(plot.x + plot.w - 0.01, Math.max(plot.x, x));
  const clampY = (y) => Math.min(plot.y + plot.h - 0.01, Math.max(plot.y, y));
  const wide = Math.abs(to.x - from.x) >= least;
  const tall = Math.abs(to.y - from.y) >= least;
  if (!wide && !tall) return null;
  const first = blockAt(data, geometry, clampX(Math.min(from.x, to.x)), clampY(Math.min(from.y, to.y)));
  const last = blockAt(data, geometry, clampX(Math.max(from.x, to.x)), clampY(Math.max(from.y, to.y)));
  if (!first || !last) return null;
  return {
    rows: tall ? [data.window[0] + first.rows[0], data.window[0] + last.rows[1]] : [...data.window],
    steps: wide ? [first.steps[0], last.steps[1]] : [data.steps[0], data.steps[data.steps.length - 1] - 1],
  };
}

/** Round numbers between low and high, at most `most`, whole and spaced by 1, 2 or 5 x 10^n. */
export function niceTicks(low, high, most) {
  const rough = Math.max(1, (high - low) / Math.max(1, most));
  const power = 10 ** Math.floor(Math.log10(rough));
  const spacing = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const ticks = [];
  for (let tick = Math.ceil(low / spacing) * spacing; tick <= high; tick += spacing) ticks.push(tick);
  return ticks;
}

/** Position of a rank among the rows of the window, -1 if it is not there. */
export function rowOfRank(data, rank) {
  if (data.order === 'rank' && rank - data.rank[0] >= 0 && data.rank[rank - data.rank[0]] === rank) {
    return rank - data.rank[0];
  }
  return Array.prototype.indexOf.call(data.rank, rank);
}
