/**
 * Positions of lanes and their rows on the canvas. Pure. CSS pixels.
 *
 * @typedef {Object} Geometry
 * @property {number} width @property {number} height of the canvas
 * @property {number} left where time begins @property {number} top where lanes begin
 * @property {number} laneHeight @property {number} scroll lanes moved up by, px
 * @property {number[]} ranks rank of each lane @property {Object<number, number>} pinned order
 * @property {import('../../lib/canvas/time_scale.mjs').Span} window
 * @property {boolean} [onlyComm] the ranks recorded only collectives, which use the whole lane
 */
import { COMM, HOST } from './tile.mjs';

export const LEAST_LANE = 24;
export const MOST_LANE = 112;
const GAP = 5;
const BELOW = 6;

/** Width of the lane names, px: enough for coordinates next to ranks of four or more digits. */
export function labelRoom(width, ranks) {
  if (width < 520) return 76;
  return ranks.some((rank) => rank >= 1000) ? 148 : 116;
}

/** Height of a lane and of the canvas, for a number of lanes and the available height. */
export function laneSizes(lanes, room, top, least = LEAST_LANE) {
  const share = (room - top - BELOW) / Math.max(lanes, 1);
  const laneHeight = Math.floor(Math.min(Math.max(share, least), MOST_LANE));
  const wanted = top + lanes * laneHeight + BELOW;
  return { laneHeight, height: Math.ceil(Math.min(wanted, Math.max(room, top + laneHeight))) };
}

/** Top of a lane on the canvas, px. */
export function laneTop(geometry, lane) {
  return geometry.top + lane * geometry.laneHeight - geometry.scroll;
}

/** Top and height of a row within its lane: compute, communication, host. */
export function rowBox(laneHeight, row, onlyComm = false) {
  const room = laneHeight - GAP;
  if (onlyComm) return { y: 0, height: room };
  const compute = Math.round(room * 0.58);
  const comm = Math.round(room * 0.27);
  if (row === 1 || row === 4) return { y: compute + 1, height: comm };
  if (row === HOST) return { y: compute + comm + 2, height: Math.max(room - compute - comm - 2, 2) };
  return { y: 0, height: compute };
}

/** Lane at y, -1 for none. */
export function laneAt(geometry, y) {
  if (y < geometry.top) return -1;
  const lane = Math.floor((y - geometry.top + geometry.scroll) / geometry.laneHeight);
  return lane >= 0 && lane < geometry.ranks.length ? lane : -1;
}

/** Row at y within a lane, and the share of the row's height above y. */
export function rowAt(geometry, lane, y) {
  const inside = y - laneTop(geometry, lane);
  if (geometry.onlyComm) {
    return { row: COMM, share: Math.min(Math.max(inside / (geometry.laneHeight - GAP), 0), 0.999) };
  }
  for (const row of [0, 1, HOST]) {
    const box = rowBox(geometry.laneHeight, row);
    if (inside <= box.y + box.height + (row === HOST ? GAP : 1)) {
      return { row, share: Math.min(Math.max((inside - box.y) / box.height, 0), 0.999) };
    }
  }
  return { row: HOST, share: 0.999 };
}

/** First and last lane in sight. */
export function lanesInSight(geometry) {
  const first = Math.max(Math.floor(geometry.scroll / geometry.laneHeight), 0);
  const last = Math.ceil((geometry.scroll + geometry.height - geometry.top) / geometry.laneHeight) - 1;
  return [first, Math.min(Math.max(last, first), geometry.ranks.length - 1)];
}

/** Greatest scroll position of the lanes, px. */
export function mostScroll(geometry) {
  return Math.max(geometry.ranks.length * geometry.laneHeight - (geometry.height - geometry.top) + BELOW - 2, 0);
}

export const xOf = (geometry, t) => geometry.left
  + (t - geometry.window.begin) * (geometry.width - geometry.left)
  / (geometry.window.end - geometry.window.begin);

export const timeOf = (geometry, x) => geometry.window.begin
  + (x - geometry.left) * (geometry.window.end - geometry.window.begin)
  / Math.max(geometry.width - geometry.left, 1);

/** x and width of a rectangle, at least a pixel wide; null if it is out of sight. */
function extentOf({ tile, geometry }, i) {
  const { start, dur } = tile.arrays;
  const x = xOf(geometry, tile.from + start[i]);
  const end = xOf(geometry, tile.from + start[i] + dur[i]);
  if (end < geometry.left || x > geometry.width) return null;
  const from = Math.max(x, geometry.left - 2);
  return [from, Math.max(Math.min(end, geometry.width + 2) - from, 1)];
}

/** Index, x and width of the rectangles of a lane's row that are in sight. */
export function* rectsOf(lanePart, row, level = 0) {
  const [first, last] = lanePart.tile.range(lanePart.number, row, level);
  for (let i = first; i < last; i++) {
    const extent = extentOf(lanePart, i);
    if (extent) yield [i, ...extent];
  }
}
