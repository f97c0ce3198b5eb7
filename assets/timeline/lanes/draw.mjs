/**
 * Draws the lanes of a timeline. Needs only a 2D context and data, no app, requests or other DOM, so that
 * the same function draws the live page, the overview and a shared file.
 *
 * @typedef {Object} Shown what is drawn over the lanes; every part may be missing
 * @property {?number} rank selected rank: its lane is outlined, waits for it in the accent colour
 * @property {import('../../lib/culprits.mjs').Roles} [roles] the culprits' lanes have a mark in the fault
 *   colour, as have the waits for them while the finding holds
 * @property {?{rank: number, begin: number, end: number}} selected the slice with the details
 * @property {?{rank: number, begin: number, end: number, row: number}} hover
 * @property {?{begin: number, end: number, lanes: [number, number]}} area
 * @property {number[]} marks times marked by the user
 * @property {?{rank: number, peer: number, tile: ?import('./tile.mjs').Tile}} ghost
 * @property {?Set<number>} highlightedNames names that match the search (indices into meta.names)
 */
import { inkOn, rgbOf } from '../../lib/canvas/colour.mjs';
import { patternOf } from '../../lib/canvas/kind_colours.mjs';
import { formatNs } from '../../lib/canvas/time_scale.mjs';
import { drawAxes, drawLabels, drawStepBorders } from './draw_axes.mjs';
import { drawText, setFont, widthOf } from './draw_text.mjs';
import { drawIdle, drawWaits } from './draw_waits.mjs';
import { lanesInSight, laneTop, rectsOf, rowBox, xOf } from './geometry.mjs';
import { COMM, COMPUTE, HOST, NO_REF } from './tile.mjs';

const HATCH_FROM_PX = 5;
const GHOST_SHARE = 0.42;
const TEXT_FROM_PX = 20;

/**
 * @param {CanvasRenderingContext2D} ctx already scaled to CSS pixels
 * @param {?import('./tile.mjs').Tile} tile
 * @param {import('./geometry.mjs').Geometry} geometry
 * @param {import('../../lib/canvas/kind_colours.mjs').Theme} theme
 * @param {Shown} shown
 */
export function draw(ctx, tile, geometry, theme, shown = {}) {
  ctx.fillStyle = theme.ink.panel;
  ctx.fillRect(0, 0, geometry.width, geometry.height);
  ctx.save();
  ctx.beginPath();
  ctx.rect(geometry.left, geometry.top, geometry.width - geometry.left, geometry.height - geometry.top);
  ctx.clip();
  drawLaneBacks(ctx, geometry, theme, shown);
  if (tile) {
    const [first, last] = lanesInSight(geometry);
    for (let lane = first; lane <= last; lane++) {
      const number = tile.laneOfRank.get(geometry.ranks[lane]);
      if (number === undefined) continue;
      const lanePart = { ctx, tile, geometry, theme, shown, number, y: laneTop(geometry, lane) };
      drawComputeRow(lanePart);
      drawMicrobatches(lanePart);
      drawGhost(lanePart);
      const names = drawRow(lanePart, COMM);
      drawWaits(lanePart);
      drawAll(names);  // above the waits, which would make the names unreadable
      drawAll(drawRow(lanePart, HOST));
    }
  }
  if (tile) drawStepBorders(ctx, tile, geometry, theme);
  drawSelection(ctx, geometry, theme, shown);
  ctx.restore();
  drawAxes(ctx, tile, geometry, theme, shown);
  drawLabels(ctx, tile, geometry, theme, shown);
}

function drawLaneBacks(ctx, geometry, theme, shown) {
  const [first, last] = lanesInSight(geometry);
  for (let lane = first; lane <= last; lane++) {
    const y = laneTop(geometry, lane);
    if (geometry.ranks[lane] === shown.rank) {
      ctx.fillStyle = theme.ink.raised;
      ctx.fillRect(geometry.left, y - 2, geometry.width - geometry.left, geometry.laneHeight);
    }
    ctx.fillStyle = theme.ink.line;
    ctx.globalAlpha = 0.55;
    ctx.fillRect(geometry.left, y + geometry.laneHeight - 3, geometry.width - geometry.left, 1);
    ctx.globalAlpha = 1;
  }
}

/**
 * Compute and the reasons of idle time. Where boxes are whole spans, a wait lies inside of them
 * (communication within forward or backward): it is drawn over the boxes, else behind them.
 */
function drawComputeRow(lanePart) {
  const isWhole = lanePart.tile.meta.detail === 'nested' && !lanePart.geometry.onlyComm;
  if (!isWhole) drawIdle(lanePart);
  const names = drawRow(lanePart, COMPUTE);
  if (isWhole) drawIdle(lanePart, true);
  drawAll(names);
}

const drawAll = (drawings) => drawings.forEach((draw) => draw());

/** Draws the spans of a row and returns what draws their names. */
function drawRow(lanePart, row) {
  const drawNames = [];
  const { ctx, tile, theme, geometry, shown } = lanePart;
  const { kind, count, busy, dur, ref, span_name: names, span_open: open } = tile.arrays;
  const { kinds } = tile.meta;
  const box = rowBox(geometry.laneHeight, row, geometry.onlyComm);
  const levels = tile.levels[row];
  const height = Math.max(box.height / levels, 2);
  for (let level = 0; level < levels; level++) {
    const y = lanePart.y + box.y + level * height;
    if (level * height >= box.height) break;
    for (const [i, x, width] of rectsOf(lanePart, row, level)) {
      const colour = theme.kind[kinds[kind[i]]] ?? theme.ink.faint;
      const share = count[i] > 1 ? Math.min(busy[i] / Math.max(dur[i], 1), 1) : 1;
      const isDimmed = shown.highlightedNames && !(ref[i] !== NO_REF && shown.highlightedNames.has(names[ref[i]]));
      const isOpen = ref[i] !== NO_REF && open?.[ref[i]] === 1;
      ctx.globalAlpha = (0.4 + 0.6 * share) * (isDimmed ? 0.18 : 1) * (isOpen ? 0.45 : 1);
      ctx.fillStyle = colour;
      const inset = levels > 1 && height > 5 ? 1 : 0;
      const gap = width > 4 ? 0.5 : 0;
      ctx.fillRect(x, y, width - gap, height - inset);
      if (row === COMM && width >= HATCH_FROM_PX) {
        ctx.fillStyle = patternOf(ctx, theme, 'hatch', theme.ink.panel);
        ctx.globalAlpha *= 0.45;
        ctx.fillRect(x, y, width - gap, height - inset);
      }
      ctx.globalAlpha = 1;
      if (isOpen) {  // it begins here, and its end was not recorded
        ctx.fillStyle = colour;
        ctx.fillRect(x, y, Math.min(width, 2), height - inset);
      }
      if ((levels > 1 || geometry.onlyComm) && height >= 10 && width > 34 && ref[i] !== NO_REF) {
        const name = tile.meta.names[names[ref[i]]];
        const text = isOpen ? name.split(',')[0] : name + (level === 0 ? microbatchOf(tile, ref[i]) : '');
        const from = Math.max(x, geometry.left);
        const end = x + width;
        const ink = isOpen ? theme.ink.text : inkOn(rgbOf(colour));
        const back = row === COMM && !isOpen && !isDimmed ? colour : null;
        drawNames.push(() => drawText(ctx, theme, text, from, y, end - from, height - 1, ink, back));
      }
    }
  }
  return drawNames;
}

const microbatchOf = (tile, s) => (tile.arrays.span_microbatch[s] >= 0
  ? ` ${tile.arrays.span_microbatch[s]}` : '');

/** Micro-batch numbers in forward and backward spans, and a thin line where each begins. */
function drawMicrobatches(lanePart) {
  const { ctx, tile, theme, geometry, number, y } = lanePart;
  if (tile.levels[COMPUTE] > 1) return;  // nested spans have their names in the boxes
  const box = rowBox(geometry.laneHeight, COMPUTE, geometry.onlyComm);
  const { frame, span_lane: lanes, span_start: starts, span_dur: durs, span_kind: kinds,
    span_microbatch: microbatches } = tile.arrays;
  for (const s of microbatchesOf(tile, frame, lanes, number)) {
    const x = xOf(geometry, tile.from + starts[s]);
    const end = xOf(geometry, tile.from + starts[s] + durs[s]);
    if (end < geometry.left || x > geometry.width || end - x < 3) continue;
    ctx.fillStyle = theme.ink.panel;
    ctx.fillRect(x - 0.5, y + box.y, 1, box.height);
    if (end - x < TEXT_FROM_PX || box.height < 9) continue;
    drawNumber(lanePart, String(microbatches[s]), Math.max(x, geometry.left), y + box.y, box.height,
      theme.kind[tile.meta.kinds[kinds[s]]] ?? theme.ink.faint);
  }
}

/** The compute row of another rank, in the lower part of this rank's row, below a line. */
function drawGhost(lanePart) {
  const { ctx, geometry, theme, shown } = lanePart;
  const { ghost } = shown;
  if (!ghost?.tile || lanePart.tile.meta.lanes[lanePart.number].rank !== ghost.rank) return;
  const box = rowBox(geometry.laneHeight, COMPUTE, geometry.onlyComm);
  const height = Math.round(box.height * GHOST_SHARE);
  const y = lanePart.y + box.y + box.height - height;
  ctx.fillStyle = theme.ink.panel;
  ctx.fillRect(geometry.left, y - 1, geometry.width - geometry.left, height + 1);
  const { kind, level } = ghost.tile.arrays;
  for (const [i, x, width] of rectsOf({ ...lanePart, tile: ghost.tile, number: 0 }, COMPUTE)) {
    if (level[i] > 0) continue;
    ctx.globalAlpha = 0.75;
    ctx.fillStyle = theme.kind[ghost.tile.meta.kinds[kind[i]]] ?? theme.ink.faint;
    ctx.fillRect(x, y + 1, width - (width > 4 ? 0.5 : 0), height - 1);
    ctx.globalAlpha = 1;
  }
  ctx.fillStyle = theme.ink.text;
  ctx.fillRect(geometry.left, y - 1, geometry.width - geometry.left, 1);
  setFont(ctx, theme, 10);
  const text = `peer r${ghost.peer}`;
  ctx.fillStyle = theme.ink.panel;
  ctx.fillRect(geometry.left + 1, y + 1, widthOf(ctx, text, 10) + 6, Math.min(height - 1, 13));
  ctx.fillStyle = theme.ink.text;
  ctx.fillText(text, geometry.left + 4, y + 1 + Math.min(height - 1, 13) / 2);
}

const microbatchesByLane = new WeakMap();

/** Micro-batch spans of a lane; they are sorted into lanes once per tile. */
function microbatchesOf(tile, frame, lanes, number) {
  if (!microbatchesByLane.has(tile)) {
    const sorted = new Map();
    for (const s of frame) {
      if (!sorted.has(lanes[s])) sorted.set(lanes[s], []);
      sorted.get(lanes[s]).push(s);
    }
    microbatchesByLane.set(tile, sorted);
  }
  return microbatchesByLane.get(tile).get(number) ?? [];
}

/** A micro-batch number on a background of its kind's colour, as the spans below may be cut into pieces. */
function drawNumber({ ctx, theme }, text, x, y, height, colour) {
  const size = Math.min(11, height);
  setFont(ctx, theme, size);
  const width = widthOf(ctx, text, size) + 6;
  ctx.fillStyle = colour;
  ctx.fillRect(x + 0.5, y, width, height);
  ctx.fillStyle = inkOn(rgbOf(colour));
  ctx.fillText(text, x + 3.5, y + height / 2 + 0.5);
}

/** An outline around the lane of the selected rank. */
function drawSelectedLane(ctx, geometry, theme, rank) {
  const lane = geometry.ranks.indexOf(rank);
  if (lane < 0) return;
  ctx.strokeStyle = theme.ink.link;
  ctx.lineWidth = 1;
  const top = Math.max(laneTop(geometry, lane) - 1.5, geometry.top + 0.5);
  const bottom = laneTop(geometry, lane) + geometry.laneHeight - 2.5;
  if (bottom > top) ctx.strokeRect(geometry.left + 0.5, top, geometry.width - geometry.left - 1, bottom - top);
}

function drawSelection(ctx, geometry, theme, shown) {
  drawSelectedLane(ctx, geometry, theme, shown.rank);
  for (const [slice, colour, width] of [[shown.hover, theme.ink.text, 1], [shown.selected, theme.ink.text, 2]]) {
    if (!slice) continue;
    const lane = geometry.ranks.indexOf(slice.rank);
    if (lane < 0) continue;
    const box = rowBox(geometry.laneHeight, slice.row ?? 0, geometry.onlyComm);
    const x = Math.max(xOf(geometry, slice.begin), geometry.left - 4);
    const end = Math.min(xOf(geometry, slice.end), geometry.width + 4);
    if (end < geometry.left || x > geometry.width) continue;
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    const height = box.height / (slice.levels ?? 1);
    ctx.strokeRect(x - 0.5, laneTop(geometry, lane) + box.y + (slice.level ?? 0) * height - 0.5,
      Math.max(end - x, 2) + 1, height + 1);
  }
  if (shown.area) {
    const { begin, end, lanes } = shown.area;
    const x = xOf(geometry, begin);
    const y = laneTop(geometry, lanes[0]);
    const height = (lanes[1] - lanes[0] + 1) * geometry.laneHeight;
    ctx.fillStyle = theme.ink.link;
    ctx.globalAlpha = 0.12;
    ctx.fillRect(x, y - 1, xOf(geometry, end) - x, height);
    ctx.globalAlpha = 1;
    ctx.strokeStyle = theme.ink.link;
    ctx.lineWidth = 1;
    ctx.strokeRect(x + 0.5, y - 0.5, xOf(geometry, end) - x, height - 1);
    const text = formatNs(end - begin);
    ctx.font = `600 11px ${theme.font}`;
    ctx.fillStyle = theme.ink.panel;
    ctx.fillRect(x + 1, y, ctx.measureText(text).width + 10, 15);
    ctx.fillStyle = theme.ink.link;
    ctx.textBaseline = 'middle';
    ctx.fillText(text, x + 6, y + 8);
  }
}
