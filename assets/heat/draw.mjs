/**
 * Draws a heat map: cells, axes, selection. Pure apart from the 2D context, so that a shared file can use
 * it without a server: draw(ctx, data, geometry, theme, marks).
 */
import { colourTable, paint } from '../lib/canvas/colour.mjs';
import { stepCount, stepTicks, xOfColumn, xOfStep } from '../lib/canvas/step_axis.mjs';
import { niceTicks } from '../lib/canvas/ticks.mjs';
import { boxOfRank, rowOfRank, yOfRow } from './geometry.mjs';

const TITLES = { rank: 'rank', place: 'rank by pp, dp, tp', host: 'rank by host', hosts: 'host' };

/**
 * An image of the cells, one pixel each. Make it once per data and theme.
 * @returns {?HTMLCanvasElement} null if there is no cell
 */
export function cellImage(data, theme, makeCanvas = () => document.createElement('canvas')) {
  if (!data.width || !data.height) return null;
  const canvas = makeCanvas();
  canvas.width = data.width;
  canvas.height = data.height;
  const context = canvas.getContext('2d', { willReadFrequently: true });
  const image = context.createImageData(data.width, data.height);
  paint(data.code, colourTable(theme), image.data);
  context.putImageData(image, 0, 0);
  return canvas;
}

/**
 * @param {CanvasRenderingContext2D} ctx scaled so that 1 is a CSS pixel
 * @param {import('./geometry.mjs').HeatData} data
 * @param {import('./geometry.mjs').Geometry} geometry
 * @param {Object} theme readTheme(): noise, more, less, text, quiet, line, panel, fault, link, font
 * @param {{rank?: ?number, steps?: ?[number, number], hover?: ?Object, drag?: ?Object,
 *   culprits?: number[], victims?: number[], faultSteps?: ?[number, number]}} shown
 * @param {?HTMLCanvasElement} image cellImage(data, theme)
 */
export function draw(ctx, data, geometry, theme, shown = {}, image = cellImage(data, theme)) {
  drawMap(ctx, data, geometry, theme, image);
  drawMarks(ctx, data, geometry, theme, shown);
}

/** Cells and axes, which change only with the data. */
export function drawMap(ctx, data, geometry, theme, image = cellImage(data, theme)) {
  const { plot, width, height } = geometry;
  ctx.clearRect(0, 0, width, height);
  ctx.font = `11px ${theme.font}`;
  hatch(ctx, plot, theme);
  if (image) {
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(image, plot.x, plot.y, plot.w, plot.h);
  }
  if (data.count <= plot.h / 6) rowGaps(ctx, data, geometry, theme);
  stepAxis(ctx, data, geometry, theme);
  rowAxis(ctx, data, geometry, theme);
}

/** Marks over the map: selection, pointer, brushed steps, culprits. */
export function drawMarks(ctx, data, geometry, theme, shown) {
  const { plot } = geometry;
  brushed(ctx, data, geometry, theme, shown.steps);
  ctx.save();
  ctx.beginPath();
  ctx.rect(plot.x - 6, plot.y - 4, plot.w + 16, plot.h + 8);
  ctx.clip();
  selection(ctx, data, geometry, theme, shown);
  for (const rank of shown.victims ?? []) rowMark(ctx, data, geometry, rank, theme.text, false);
  for (const rank of shown.culprits ?? []) {
    rowMark(ctx, data, geometry, rank, theme.fault, true);
    faultFrame(ctx, data, geometry, rank, theme.fault, shown.faultSteps);
  }
  ctx.restore();
  if (shown.drag) dragged(ctx, geometry, theme, shown.drag);
}

/** Hatching below the cells, visible where nothing was recorded. */
function hatch(ctx, plot, theme) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(plot.x, plot.y, plot.w, plot.h);
  ctx.clip();
  ctx.strokeStyle = theme.line;
  ctx.lineWidth = 1;
  ctx.beginPath();
  for (let x = plot.x - plot.h; x < plot.x + plot.w; x += 6) {
    ctx.moveTo(x, plot.y + plot.h);
    ctx.lineTo(x + plot.h, plot.y);
  }
  ctx.stroke();
  ctx.restore();
}

function rowGaps(ctx, data, geometry, theme) {
  const { plot } = geometry;
  ctx.fillStyle = theme.panel;
  for (let i = 1; i < data.count; i++) ctx.fillRect(plot.x, yOfRow(data, geometry, i) - 1, plot.w, 2);
  const count = stepCount(data);
  if (plot.w / count < 6) return;
  for (let i = 1; i < count; i++) {
    ctx.fillRect(xOfColumn(data, geometry, i) - 0.5, plot.y, 1, plot.h);
  }
}

function stepAxis(ctx, data, geometry, theme) {
  const { plot } = geometry;
  if (!data.width) return;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'top';
  for (const { x, step } of stepTicks(data, geometry, plot.w / 60)) {
    ctx.fillStyle = theme.line;
    ctx.fillRect(Math.round(x), plot.y + plot.h, 1, 4);
    ctx.fillStyle = theme.quiet;
    ctx.fillText(String(step), x, plot.y + plot.h + 6);
  }
  ctx.fillText(data.kind === 'hosts' ? 'rank in host' : 'step', plot.x + plot.w / 2, plot.y + plot.h + 21);
}

function rowAxis(ctx, data, geometry, theme) {
  const { plot } = geometry;
  ctx.textAlign = 'right';
  ctx.textBaseline = 'middle';
  const height = plot.h / Math.max(1, data.count);
  let lowest = -Infinity;
  for (const { at, label, middle } of rowTicks(data, plot.h)) {
    const y = yOfRow(data, geometry, at);
    const textY = middle ? y + height / 2 : y + 6;
    ctx.fillStyle = theme.line;
    ctx.fillRect(plot.x - 5, Math.round(middle ? textY : y), 4, 1);
    if (textY - lowest < 13) continue;
    lowest = textY;
    ctx.fillStyle = theme.quiet;
    ctx.fillText(label, plot.x - 7, textY, plot.x - 18);
  }
  ctx.save();
  ctx.translate(9, plot.y + plot.h / 2);
  ctx.rotate(-Math.PI / 2);
  ctx.textAlign = 'center';
  ctx.fillStyle = theme.quiet;
  ctx.fillText(TITLES[data.order] ?? data.order, 0, 0);
  ctx.restore();
}

/** Labels of the rows: ranks, or the borders between stages or hosts. */
export function rowTicks(data, plotHeight) {
  const { count } = data;
  if (data.kind === 'hosts') {
    return niceTicks(0, count - 1, plotHeight / 18)
      .map((at) => ({ at, label: data.hosts[at] || 'unknown', middle: true }));
  }
  if (data.marks?.length && (data.order !== 'rank')) {
    const [first, last] = data.window;
    const inside = data.marks.filter((mark, i) => (
      (data.marks[i + 1]?.at ?? Infinity) > first && mark.at <= last));
    if (inside.length > 1) {
      return inside.map(({ at, label }) => ({ at: Math.max(0, at - first), label, middle: false }));
    }
  }
  if (data.order !== 'rank') {
    return niceTicks(0, count - 1, plotHeight / 18)
      .map((at) => ({ at, label: String(data.rank[at]), middle: true }));
  }
  return niceTicks(data.rank[0], data.rank[count - 1], plotHeight / 18)
    .map((rank) => ({ at: rowOfRank(data, rank), label: String(rank), middle: true }))
    .filter(({ at }) => at >= 0);
}

/** A line below the brushed steps. */
function brushed(ctx, data, geometry, theme, steps) {
  if (!steps || data.kind === 'hosts') return;
  const { plot } = geometry;
  const [low, high] = [steps[0], steps[1] + 1].map((step) => (
    Math.min(plot.x + plot.w, Math.max(plot.x, xOfStep(data, geometry, step)))));
  if (high <= low) return;
  ctx.fillStyle = theme.link;
  ctx.fillRect(low, plot.y + plot.h, Math.max(2, high - low), 2);
}

/** A sign next to the row, or in the cell: solid for a culprit, outlined for its victims. */
function rowMark(ctx, data, geometry, rank, colour, solid) {
  const box = boxOfRank(data, geometry, rank);
  if (!box) return;
  const x = data.kind === 'hosts' ? box.x + 1 : box.x + box.w + 1;
  const y = box.y + box.h / 2;
  ctx.fillStyle = ctx.strokeStyle = colour;
  ctx.lineWidth = 1;
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x + 7, y - 4.5);
  ctx.lineTo(x + 7, y + 4.5);
  ctx.closePath();
  if (solid) ctx.fill();
  else ctx.stroke();
}

/** A frame around the cells of a culprit's row in which the finding holds. */
function faultFrame(ctx, data, geometry, rank, colour, steps) {
  if (!steps || data.kind === 'hosts') return;
  const box = boxOfRank(data, geometry, rank);
  const [from, to] = faultExtent(data, geometry, steps);
  if (!box || to <= from) return;
  ctx.strokeStyle = colour;
  ctx.lineWidth = 2;
  ctx.strokeRect(from + 1, Math.round(box.y), Math.max(to - from - 2, 1), Math.max(Math.round(box.h), 3));
}

/** Left and right end, px, of the part of the map that lies in `steps`; equal ends if none does. */
export function faultExtent(data, geometry, [first, last]) {
  const { plot } = geometry;
  const clipped = (x) => Math.min(plot.x + plot.w, Math.max(plot.x, x));
  const from = Number.isFinite(first) ? clipped(xOfStep(data, geometry, first)) : plot.x;
  const to = Number.isFinite(last) ? clipped(xOfStep(data, geometry, last + 1)) : plot.x + plot.w;
  return [from, Math.max(from, to)];
}

function selection(ctx, data, geometry, theme, shown) {
  ctx.lineWidth = 1.5;
  ctx.strokeStyle = theme.link;
  const box = shown.rank === null || shown.rank === undefined ? null : boxOfRank(data, geometry, shown.rank);
  if (box) {  // around a thin row, not over it
    const room = box.h < 6 ? 3 : 0;
    ctx.strokeRect(box.x + 0.5, Math.round(box.y) - 0.5 - room, box.w - 1, Math.round(box.h) + 1 + 2 * room);
  }
  ctx.lineWidth = 1;
  ctx.strokeStyle = theme.text;
  if (shown.hover) {
    const { rows, column } = shown.hover;
    const [x, y] = [xOfColumn(data, geometry, data.columns[column]), yOfRow(data, geometry, rows[0])];
    const w = xOfColumn(data, geometry, data.columns[column + 1]) - x;
    const h = yOfRow(data, geometry, rows[1] + 1) - y;
    ctx.strokeRect(x - 0.5, y - 0.5, Math.max(3, w) + 1, Math.max(3, h) + 1);
  }
}

function dragged(ctx, geometry, theme, { from, to }) {
  const { plot } = geometry;
  const x = Math.max(plot.x, Math.min(from.x, to.x));
  const y = Math.max(plot.y, Math.min(from.y, to.y));
  const right = Math.min(plot.x + plot.w, Math.max(from.x, to.x));
  const bottom = Math.min(plot.y + plot.h, Math.max(from.y, to.y));
  ctx.save();
  ctx.globalAlpha = 0.18;
  ctx.fillStyle = theme.link;
  ctx.fillRect(x, y, right - x, bottom - y);
  ctx.restore();
  ctx.strokeStyle = theme.link;
  ctx.strokeRect(x + 0.5, y + 0.5, right - x, bottom - y);
}
