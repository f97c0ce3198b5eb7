/**
 * A step of a pipeline as measured, and below it under another schedule, on one time axis.
 *
 * @typedef {[kind: 'F'|'B'|'W', microbatch: number, chunk: number, begin: number, end: number]} Op times in s
 * @typedef {{step: number, replica: number, measured: Op[][], predicted: Op[][]}} Timelines answer of what-if/schedule
 */
import { ticks } from '../lib/canvas/time_scale.mjs';
import { seconds } from './messages.mjs';

export const KINDS = { F: 'forward', B: 'backward', W: 'wgrad' };
const AXIS = 20;
const TITLE = 20;
const LEAST_LABEL = 15;

const endOf = (lanes) => Math.max(0, ...lanes.map((ops) => (ops.length ? Math.max(...ops.map((op) => op[4])) : 0)));

/** Where everything is, in CSS pixels. Pure. @param {Timelines} shown @param {number} width */
export function layoutOf(shown, width) {
  const lanes = Math.max(shown.measured.length, shown.predicted.length);
  const height = lanes <= 4 ? 26 : lanes <= 8 ? 20 : lanes <= 16 ? 14 : 9;
  const tops = { measured: AXIS + TITLE, predicted: AXIS + 2 * TITLE + shown.measured.length * height };
  const left = width < 500 ? 34 : 70;
  const end = 1.02 * Math.max(endOf(shown.measured), endOf(shown.predicted), 1e-9);
  return { width, left, lane: height, tops, end, height: tops.predicted + shown.predicted.length * height + 4 };
}

const xOf = (layout, time) => layout.left + (time / layout.end) * (layout.width - layout.left);

/** @param {CanvasRenderingContext2D} ctx @param {Timelines} shown @param {string} name of the schedule */
export function draw(ctx, shown, layout, name, theme) {
  ctx.clearRect(0, 0, layout.width, layout.height);
  ctx.font = `11px ${theme.font}`;
  drawAxis(ctx, layout, theme);
  for (const world of ['measured', 'predicted']) {
    ctx.textBaseline = 'middle';
    ctx.textAlign = 'left';
    ctx.fillStyle = theme.ink.text;
    const title = world === 'measured' ? 'as measured' : `under ${name}`;
    ctx.fillText(`${title}: ${seconds(endOf(shown[world]))}`, 0, layout.tops[world] - 9);
    for (const [device, ops] of shown[world].entries()) {
      const y = layout.tops[world] + device * layout.lane;
      ctx.fillStyle = theme.ink.quiet;
      ctx.fillText(layout.left > 50 ? `device ${device}` : String(device), 0, y + layout.lane / 2 - 1, layout.left - 4);
      for (const op of ops) drawOp(ctx, op, y, layout, theme);
    }
  }
}

function drawAxis(ctx, layout, theme) {
  ctx.textBaseline = 'top';
  ctx.textAlign = 'left';
  for (const { t, label } of ticks({ begin: 0, end: layout.end * 1e9 }, layout.width - layout.left, 0)) {
    const x = Math.round(xOf(layout, t / 1e9));
    ctx.fillStyle = theme.ink.line;
    ctx.fillRect(x, AXIS - 4, 1, layout.height);
    ctx.fillStyle = theme.ink.quiet;
    if (x < layout.width - 40) ctx.fillText(label, x + 3, 3);
  }
}

function drawOp(ctx, [kind, microbatch, chunk, begin, end], y, layout, theme) {
  const x = xOf(layout, begin);
  const width = Math.max(1, xOf(layout, end) - x - 0.5);
  ctx.fillStyle = theme.kind[KINDS[kind]];
  ctx.globalAlpha = chunk % 2 ? 0.62 : 1;  // chunks of a device differ
  ctx.fillRect(x, y, width, layout.lane - 3);
  ctx.globalAlpha = 1;
  if (width < LEAST_LABEL || layout.lane < 14) return;
  ctx.fillStyle = theme.ink.page;
  ctx.textAlign = 'center';
  ctx.fillText(String(microbatch), x + width / 2, y + layout.lane / 2 - 1);
  ctx.textAlign = 'left';
}

/** The operation at a point, with its device and world; null where there is none. Pure. */
export function opAt(shown, layout, { x, y }) {
  for (const world of ['measured', 'predicted']) {
    const device = Math.floor((y - layout.tops[world]) / layout.lane);
    const time = ((x - layout.left) / (layout.width - layout.left)) * layout.end;
    const op = y >= layout.tops[world] && shown[world][device]?.find((one) => time >= one[3] && time <= one[4]);
    if (op) return { world, device, op };
  }
  return null;
}
