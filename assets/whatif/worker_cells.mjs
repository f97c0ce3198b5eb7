/**
 * The map of the workers: stages below each other, dp ranks next to each other. Pure: no DOM.
 *
 * @typedef {Object} Block cells of one stage that are drawn as one, represented by the worst of them
 * @property {number} stage @property {[number, number]} dps first and last dp rank
 * @property {number} dp of the worst cell @property {number} value its S_w @property {number} rank
 * @typedef {Object} CellMap
 * @property {number} stages @property {number} dps
 * @property {number[]} edges first dp rank of each column, and the number of dp ranks
 * @property {Block[]} blocks stage by stage
 */
import { codeOf } from '../lib/canvas/colour.mjs';

export const FULL = 0.5;
const NOISE = 0.03;
const LEAST_PX = 4;

/** Colour byte of a slowdown: from 1.0, grey below 1.03, to 1.5. */
export const codeOfSlowdown = (value) => codeOf(Math.max(0, value - 1), NOISE, FULL);

/**
 * Blocks in as many columns as can be distinguished; the worst cell represents each block.
 * @param {number[][]} values S_w by stage and dp rank @param {number[][]} ranks @param {number} widthPx
 * @returns {CellMap}
 */
export function cellMap(values, ranks, widthPx) {
  const dps = values[0]?.length ?? 0;
  const columns = Math.max(1, Math.min(dps, Math.floor(widthPx / LEAST_PX)));
  const edges = Array.from({ length: columns + 1 }, (_, i) => Math.round(i * dps / columns));
  const blocks = values.flatMap((row, stage) => edges.slice(0, -1).map((first, i) => {
    let dp = first;
    for (let other = first; other < edges[i + 1]; other++) if (row[other] > row[dp]) dp = other;
    return { stage, dps: [first, edges[i + 1] - 1], dp, value: row[dp], rank: ranks[stage][dp] };
  }));
  return { stages: values.length, dps, edges, blocks };
}

/** @returns {{width: number, height: number, plot: {x: number, y: number, w: number, h: number}}} */
export function geometryOf(width, stages) {
  const rowPx = Math.min(44, Math.max(12, Math.floor(260 / Math.max(1, stages))));
  const plot = { x: 58, y: 6, w: Math.max(1, width - 66), h: rowPx * stages };
  return { width, height: plot.h + 44, plot };
}

/** Box of a block on the canvas. */
export function boxOf(map, { plot }, block) {
  const x = plot.x + plot.w * block.dps[0] / map.dps;
  const y = plot.y + plot.h * block.stage / map.stages;
  return { x, y, w: plot.w * (block.dps[1] + 1 - block.dps[0]) / map.dps, h: plot.h / map.stages };
}

/** The block under a point; null outside the plot. @returns {?Block} */
export function blockAt(map, { plot }, { x, y }) {
  const column = (x - plot.x) / plot.w;
  const row = (y - plot.y) / plot.h;
  if (!(column >= 0 && column < 1 && row >= 0 && row < 1) || !map.dps) return null;
  const dp = Math.floor(column * map.dps);
  const columns = map.edges.length - 1;
  let index = Math.min(columns - 1, Math.floor(column * columns));
  while (map.edges[index] > dp) index--;
  while (map.edges[index + 1] <= dp) index++;
  return map.blocks[Math.floor(row * map.stages) * columns + index];
}

/** Number of the block that an arrow key leads to; the first if there is no current one. */
export function moved(map, current, key) {
  const columns = map.edges.length - 1;
  if (current === null) return 0;
  const [row, column] = [Math.floor(current / columns), current % columns];
  const target = {
    ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
  }[key];
  const isInside = target[0] >= 0 && target[0] < map.stages && target[1] >= 0 && target[1] < columns;
  return isInside ? target[0] * columns + target[1] : current;
}

/** Sentence about a block. @param {Block} block @param {boolean} isOfMany cells have several ranks */
export function blockText(block, isOfMany = false) {
  const who = block.dps[0] === block.dps[1] ? `dp rank ${block.dp}` : `dp ranks ${block.dps[0]} to ${block.dps[1]}, worst ${block.dp}`;
  return `stage ${block.stage}, ${who}: ${isOfMany ? 'slowest is ' : ''}rank ${block.rank}, ${block.value.toFixed(3)} x`;
}
