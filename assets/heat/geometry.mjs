/**
 * Positions of the cells of a heat map on the canvas. Pure: no DOM. All lengths in CSS pixels.
 *
 * @typedef {Object} Geometry
 * @property {number} width @property {number} height of the canvas
 * @property {{x: number, y: number, w: number, h: number}} plot
 *
 * @typedef {Object} HeatData
 * @property {'steps'|'hosts'} kind ranks x steps, or hosts x slot in the host
 * @property {number} count rows of the window, before pooling
 * @property {Uint8Array} code height x width bytes, row by row
 * @property {number} height @property {number} width drawn rows and columns
 * @property {ArrayLike<number>} rank global rank of each row of the window; of each cell for hosts
 * @property {ArrayLike<number>} rows edges of the drawn rows, positions in `rank`
 * @property {ArrayLike<number>} columns edges of the drawn columns, positions among the recorded steps
 * @property {ArrayLike<number>} firstStep @property {ArrayLike<number>} lastStep numbers of the steps of
 *   each drawn column: numbers may have gaps, which have no place on the canvas
 * @property {[number, number]} window positions of the first and last row among all rows
 * @property {number} numRows of the whole map @property {[number, number]} allSteps
 * @property {{at: number, label: string}[]} marks borders between rows that belong together
 * @property {string[]} hosts names, for hosts
 * @property {boolean} isPart the newest steps of a map that is still being loaded
 * @property {boolean} isCut only some steps, because the whole map is too large
 * @property {string} [nothing] why there is no step, if there is none
 * @property {?number} comparedFrom first step with something to compare; earlier ones are recorded
 * @property {?Float32Array} value @property {?Float32Array} peers
 * @property {Object} legend @property {string} order
 */
import { blockOf, stepCount, stepRange } from '../lib/canvas/step_axis.mjs';

/** @returns {Geometry} */
export function geometryOf(width, height, { rowLabel = 44 } = {}) {
  const plot = { x: rowLabel, y: 6, w: Math.max(1, width - rowLabel - 10), h: Math.max(1, height - 44) };
  return { width, height, plot };
}

/** HeatData of an unpacked answer of ranks/heat. */
export function heatData({ arrays, meta }, order) {
  return {
    kind: 'steps', count: arrays.rank.length, hosts: [], isPart: meta.is_part === true,
    code: arrays.code, rank: arrays.rank, rows: arrays.rows, columns: arrays.columns,
    firstStep: arrays.first_step, lastStep: arrays.last_step, isCut: meta.is_cut === true,
    value: arrays.value ?? null, peers: arrays.peers ?? null, height: meta.height, width: meta.width,
    window: meta.rows, numRows: meta.num_rows, allSteps: meta.all_steps, legend: meta.legend,
    nothing: meta.nothing, comparedFrom: meta.compared_from ?? null,
    marks: meta.marks, order,
  };
}

/** Rank of a slot without a rank, as the server sends it. */
export const NO_RANK = 2 ** 32 - 1;

/** HeatData of an unpacked answer of ranks/hosts: columns are slots in the host. */
export function hostData({ arrays, meta }) {
  const slots = Array.from({ length: meta.width }, (_, slot) => slot);
  return {
    kind: 'hosts', order: 'hosts', count: meta.hosts.length, hosts: meta.hosts, isPart: false, isCut: false,
    code: arrays.code, rank: arrays.rank, rows: arrays.rows, height: meta.height, width: meta.width,
    columns: [...slots, meta.width], firstStep: slots, lastStep: slots, value: null, peers: null,
    window: [0, meta.hosts.length - 1], numRows: meta.hosts.length, allSteps: meta.steps, nothing: meta.nothing,
    marks: [], legend: meta.legend,
  };
}

/** y of the upper side of the row at a position in the window. */
export function yOfRow(data, geometry, position) {
  return geometry.plot.y + geometry.plot.h * position / data.count;
}

/**
 * The drawn block under a point, or null outside the plot.
 * @returns {?{row: number, column: number, rows: [number, number], steps: [number, number],
 *   ranks: number[], code: number}} rows: positions in data.rank, steps: both included
 */
export function blockAt(data, geometry, x, y) {
  const { plot } = geometry;
  const inside = x >= plot.x && x < plot.x + plot.w && y >= plot.y && y < plot.y + plot.h;
  if (!inside || data.width === 0 || data.height === 0) return null;
  const position = Math.floor((y - plot.y) / plot.h * data.count);
  const stepPosition = Math.floor((x - plot.x) / plot.w * stepCount(data));
  const [row, column] = [blockOf(data.rows, position), blockOf(data.columns, stepPosition)];
  return {
    row, column, code: data.code[row * data.width + column],
    rows: [data.rows[row], data.rows[row + 1] - 1], steps: [data.firstStep[column], data.lastStep[column]],
    ranks: data.kind === 'hosts' ? Array(2).fill(data.rank[row * data.width + column])
      : [data.rank[data.rows[row]], data.rank[data.rows[row + 1] - 1]],
  };
}

/**
 * The rows and steps of a dragged rectangle; null if it is so small that the user only clicked.
 * @returns {?{rows: [number, number], steps: [number, number]}} rows: among all rows
 */
export function zoomOf(data, geometry, from, to, least = 6) {
  if (data.kind === 'hosts') return null;
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
    steps: wide ? [first.steps[0], last.steps[1]] : stepRange(data),
  };
}

/** Position of a rank among the rows of the window; -1 if it is not there. */
export function rowOfRank(data, rank) {
  if (data.order === 'rank' && rank - data.rank[0] >= 0 && data.rank[rank - data.rank[0]] === rank) {
    return rank - data.rank[0];
  }
  return Array.prototype.indexOf.call(data.rank, rank);
}

/**
 * Box of a rank: its row, or its cell among the hosts; at least 3 pixels high. null if it is not drawn.
 * @returns {?{x: number, y: number, w: number, h: number}}
 */
export function boxOfRank(data, geometry, rank) {
  const { plot } = geometry;
  const isHosts = data.kind === 'hosts';
  const position = isHosts ? Array.prototype.indexOf.call(data.rank, rank) : rowOfRank(data, rank);
  if (position < 0 || !data.width) return null;
  const [rows, row] = isHosts ? [data.height, Math.floor(position / data.width)] : [data.count, position];
  const h = plot.h / rows;
  const y = plot.y + row * h;
  const w = isHosts ? plot.w / data.width : plot.w;
  return { x: isHosts ? plot.x + (position % data.width) * w : plot.x, w, y: h < 3 ? y + h / 2 - 1.5 : y, h: Math.max(3, h) };
}
