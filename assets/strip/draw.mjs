/**
 * Draws the strip: step times as bars, median, marks above; below a line for each finding, the steps on
 * screen and step numbers; the brush.
 */
import { ceiling, clippedBars, columns, placeLabels, ticks, underlineRows, xOf } from './geometry.mjs';
import { milliseconds } from './messages.mjs';

const TOP = 13;
const NUMBERS = 13;  // room for step numbers, px
const ROW = 3;  // of an underline, with the gap above it, px
const VIEWPORT = 3;
const WIDEST = 44;  // a bar of few steps, px
const FONT = '11px system-ui, sans-serif';
const LABEL_FONT = '600 10px system-ui, sans-serif';
const GLYPHS = { fault: '▼', restart: '↻', checkpoint: '◆', error: '✕', hook_error: '✕', silent: '○', lost: '○' };

function tokens(canvas) {
  const style = getComputedStyle(canvas);
  const value = (name) => style.getPropertyValue(`--${name}`).trim();
  return Object.fromEntries(
    ['panel', 'line', 'text', 'quiet', 'faint', 'link', 'fault', 'fault-back', 'warn', 'forward']
      .map((name) => [name, value(name)]));
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {{points: ?Object, meta: ?Object, axis: ?Object, side: number,
 *   steps: ?[number, number], viewport: ?[number, number], finding: ?string, hovered: ?number,
 *   problem: ?string}} shown steps: brushed; viewport: on screen
 */
export function draw(canvas, shown) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!width || !height) return;
  const scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext('2d', { willReadFrequently: true });
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = FONT;
  context.textBaseline = 'middle';
  const colours = tokens(canvas);
  const { points, axis, side } = shown;
  if (!points) {
    context.fillStyle = colours.fault;
    if (shown.problem) context.fillText(shown.problem, side, height / 2, width - 2 * side);
    return;
  }
  if (!axis) {
    context.fillStyle = colours.quiet;
    context.fillText('No step times: no finished step is recorded.', side, height / 2);
    return;
  }
  const rows = underlineRows(shown.meta.stretches);
  const plot = {
    left: side, width: width - 2 * side, top: TOP, rows,
    bottom: height - NUMBERS - VIEWPORT - ROW * Math.max(...rows.map((row) => row + 1), 1),
    x: (step) => side + xOf(axis.range, width - 2 * side, axis.place(step)),
  };
  const top = ceiling(points, shown.meta.median_ms);
  drawStretches(context, plot, shown, colours);
  drawBars(context, plot, shown, top, colours);
  drawMedian(context, plot, shown, top, colours);
  drawMarks(context, plot, shown, colours);
  drawClipped(context, plot, shown, top, colours);
  drawViewport(context, plot, shown, height, colours);
  drawSteps(context, plot, axis, height, colours);
  drawBrush(context, plot, shown, colours);
}

function drawStretches(context, plot, { meta, finding }, colours) {
  const layers = Math.max(...plot.rows.map((row) => row + 1), 1);  // they add up where they overlap
  for (const [index, stretch] of meta.stretches.entries()) {
    const from = plot.x(stretch.first);
    const to = plot.x(stretch.last + 1);
    const colour = { urgent: colours.fault, warning: colours.warn, past: colours.faint }[stretch.severity];
    context.globalAlpha = finding === stretch.finding ? 0.16 : (finding === null ? 0.16 : 0.07) / layers;
    context.fillStyle = colour;
    context.fillRect(from, plot.top, to - from, plot.bottom - plot.top);
    context.globalAlpha = 1;
    context.fillRect(from, plot.bottom + 1 + ROW * plot.rows[index], Math.max(to - from, 2), ROW - 1);
  }
}

function drawBars(context, plot, { points, axis, hovered }, top, colours) {
  const { range } = axis;
  const wide = plot.width / (range[1] - range[0] + 1);
  const height = (ms) => Math.max(Math.min(ms / top, 1) * (plot.bottom - plot.top), 1);
  context.fillStyle = colours.forward;
  if (wide >= 3) {
    const gap = Math.max(wide > 8 ? 1.5 : 0.5, wide - WIDEST);
    for (let i = 0; i < points.step.length; i++) {
      if (Number.isNaN(points.ms[i])) continue;
      context.globalAlpha = points.step[i] === hovered ? 1 : 0.62;
      const tall = height(points.ms[i]);
      context.fillRect(plot.x(points.step[i]) + gap / 2, plot.bottom - tall, wide - gap, tall);
      if (points.ms[i] > top) cut(context, plot.x(points.step[i]) + wide / 2, plot.top, colours);
    }
  } else {
    context.globalAlpha = 0.75;
    const values = columns(axis.points, range, Math.floor(plot.width));
    for (let x = 0; x < values.length; x++) {
      if (!Number.isNaN(values[x])) context.fillRect(plot.left + x, plot.bottom - height(values[x]), 1, height(values[x]));
    }
  }
  context.globalAlpha = 1;
  context.fillStyle = colours.quiet;
  context.textAlign = 'left';
  const named = plot.width < 520 ? '' : 'step time, ';  // marks are drawn on the same line
  context.fillText(`${named}up to ${milliseconds(top)}`, plot.left, plot.top - 6);
}

/** Times that exceed the scale, as text over the bars that are cut. */
function drawClipped(context, plot, { axis }, top, colours) {
  context.font = LABEL_FONT;
  const bars = clippedBars(axis.points, top).map(({ place, ms }) => ({
    text: milliseconds(ms), ms,
    middle: plot.left + xOf(axis.range, plot.width, place + 0.5),
  }));
  const room = (text) => context.measureText(text).width + 6;
  context.textAlign = 'center';
  for (const { text, left, width } of placeLabels(bars, room, plot.left, plot.left + plot.width)) {
    context.fillStyle = colours.panel;
    context.fillRect(left, plot.top + 8, width, 12);
    context.fillStyle = colours.text;
    context.fillText(text, left + width / 2, plot.top + 14.5);
  }
  context.font = FONT;
}

/** A bracket below the steps that the page shows. */
function drawViewport(context, plot, { viewport }, height, colours) {
  if (!viewport) return;
  const from = Math.max(plot.x(viewport[0]), plot.left);
  const to = Math.min(plot.x(viewport[1] + 1), plot.left + plot.width);
  if (to <= from) return;
  const y = height - NUMBERS - VIEWPORT;
  const width = Math.max(to - from, 4);
  context.fillStyle = colours.link;
  context.fillRect(from, y + 1, width, 1.5);
  context.fillRect(from, y - 1, 1.5, 3);
  context.fillRect(from + width - 1.5, y - 1, 1.5, 3);
}

/** A gap near the top of a bar that exceeds the scale. */
function cut(context, x, y, colours) {
  context.save();
  context.globalAlpha = 1;
  context.strokeStyle = colours.panel;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(x - 6, y + 7);
  context.lineTo(x + 6, y + 3);
  context.stroke();
  context.restore();
}

function drawMedian(context, plot, { meta }, top, colours) {
  if (meta.median_ms === null) return;
  const y = plot.bottom - Math.min(meta.median_ms / top, 1) * (plot.bottom - plot.top);
  context.strokeStyle = colours.text;
  context.globalAlpha = 0.55;
  context.setLineDash([4, 4]);
  context.beginPath();
  context.moveTo(plot.left, y);
  context.lineTo(plot.left + plot.width, y);
  context.stroke();
  context.setLineDash([]);
  context.globalAlpha = 1;
  context.fillStyle = colours.quiet;
  context.textAlign = 'right';
  context.fillText(`median ${milliseconds(meta.median_ms)}`, plot.left + plot.width, plot.top - 6);
}

function drawMarks(context, plot, { meta, axis: { range } }, colours) {
  const wide = plot.width / (range[1] - range[0] + 1);
  context.textAlign = 'center';
  let last = -Infinity;
  for (const mark of meta.marks) {
    const x = plot.x(mark.step) + wide / 2;
    const bad = ['fault', 'error', 'hook_error', 'lost'].includes(mark.kind);
    context.strokeStyle = context.fillStyle = bad ? colours.fault : colours.quiet;
    context.globalAlpha = 0.8;
    context.beginPath();
    context.moveTo(x, plot.top);
    context.lineTo(x, plot.bottom);
    context.stroke();
    context.globalAlpha = 1;
    if (x - last > 9) context.fillText(GLYPHS[mark.kind] ?? '•', x, plot.top - 1);
    last = x;
  }
}

function drawSteps(context, plot, { range, step: stepOf }, height, colours) {
  const wide = plot.width / (range[1] - range[0] + 1);
  context.fillStyle = colours.faint;
  context.strokeStyle = colours.line;
  context.beginPath();
  context.moveTo(plot.left, plot.bottom + 0.5);
  context.lineTo(plot.left + plot.width, plot.bottom + 0.5);
  context.stroke();
  for (const place of ticks(range, Math.max(Math.floor(plot.width / 64), 2))) {
    const label = String(stepOf(place));
    const half = context.measureText(label).width / 2;
    const middle = plot.x(stepOf(place)) + wide / 2;
    context.textAlign = 'center';
    context.fillText(label, Math.min(Math.max(middle, plot.left + half), plot.left + plot.width - half), height - 6);
  }
}

function drawBrush(context, plot, { steps }, colours) {
  if (!steps) return;
  const from = Math.max(plot.x(steps[0]), plot.left);
  const to = Math.min(plot.x(steps[1] + 1), plot.left + plot.width);
  if (to <= from) return;
  context.fillStyle = colours.panel;
  context.globalAlpha = 0.55;
  context.fillRect(plot.left, plot.top, from - plot.left, plot.bottom - plot.top);
  context.fillRect(to, plot.top, plot.left + plot.width - to, plot.bottom - plot.top);
  context.globalAlpha = 1;
  context.strokeStyle = colours.link;
  context.lineWidth = 1.5;
  context.strokeRect(from, plot.top, Math.max(to - from, 2), plot.bottom - plot.top);
  context.lineWidth = 1;
}
