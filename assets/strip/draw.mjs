/** Draws the strip: step times as bars, median, findings as ranges, marks above, step numbers below, brush. */
import { ceiling, columns, ticks, xOf } from './geometry.mjs';
import { milliseconds } from './messages.mjs';

const TOP = 13;
const BOTTOM = 15;
const WIDEST = 44;  // a bar of few steps, px
const FONT = '11px system-ui, sans-serif';
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
 *   steps: ?[number, number], finding: ?string, hovered: ?number, problem: ?string}} shown
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
    context.fillText('No step times: they appear here once the run has a finished step.', side, height / 2);
    return;
  }
  const plot = {
    left: side, width: width - 2 * side, top: TOP, bottom: height - BOTTOM,
    x: (step) => side + xOf(axis.range, width - 2 * side, axis.place(step)),
  };
  const top = ceiling(points, shown.meta.median_ms);
  drawStretches(context, plot, shown, colours);
  drawBars(context, plot, shown, top, colours);
  drawMedian(context, plot, shown, top, colours);
  drawMarks(context, plot, shown, colours);
  drawSteps(context, plot, axis, height, colours);
  drawBrush(context, plot, shown, colours);
}

function drawStretches(context, plot, { meta, finding }, colours) {
  for (const stretch of meta.stretches) {
    const from = plot.x(stretch.first);
    const to = plot.x(stretch.last + 1);
    const colour = { urgent: colours.fault, warning: colours.warn, past: colours.faint }[stretch.severity];
    context.globalAlpha = finding === null || finding === stretch.finding ? 0.16 : 0.07;
    context.fillStyle = colour;
    context.fillRect(from, plot.top, to - from, plot.bottom - plot.top);
    context.globalAlpha = 1;
    context.fillRect(from, plot.bottom, to - from, 2);
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
