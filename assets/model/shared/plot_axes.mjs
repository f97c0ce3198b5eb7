/** Axes of plots over steps, time or tokens. Draws on the caller's 2D context. */
import { stepTicks } from '../../lib/canvas/step_axis.mjs';
import { axisTitle, placeTicks, xOfStepMiddle } from './progress_axis.mjs';

/** Geometry of a plot on a canvas of this size, with room for labels on the left and below. */
export function plotOf(width, height, left) {
  return { width, height, plot: { x: left, y: 8, w: Math.max(1, width - left - 12), h: Math.max(1, height - 48) } };
}

export function drawSteps(context, data, geometry, theme) {
  const { plot } = geometry;
  context.textAlign = 'center';
  context.textBaseline = 'top';
  const ticks = data.axis ? placeTicks(data, geometry, plot.w / 90)
    : stepTicks(data, geometry, plot.w / 70).map(({ x, step }) => ({ x, text: String(step) }));
  for (const { x, text } of ticks) {
    context.fillStyle = theme.line;
    context.fillRect(Math.round(x), plot.y + plot.h, 1, 4);
    context.fillStyle = theme.quiet;
    context.fillText(text, x, plot.y + plot.h + 6);
  }
  context.fillStyle = theme.quiet;
  context.fillText(axisTitle(data), plot.x + plot.w / 2, plot.y + plot.h + 22);
}

/** Labels and lines of the value axis. @param {{at: number, text: string}[]} ticks at: 0 bottom, 1 top */
export function drawValues(context, ticks, { plot }, theme) {
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  for (const { at, text } of ticks) {
    const y = plot.y + plot.h * (1 - at);
    context.fillStyle = theme.line;
    context.fillRect(plot.x, Math.round(y), plot.w, 1);
    context.fillStyle = theme.quiet;
    context.fillText(text, plot.x - 7, y, plot.x - 9);
  }
}

/** A line at the step under the pointer in any of the plots. */
export function drawCursor(context, data, geometry, theme, step) {
  if (step === null || step === undefined || !data.width) return;
  const { plot } = geometry;
  const x = xOfStepMiddle(data, geometry, step);
  if (x < plot.x || x > plot.x + plot.w) return;
  context.fillStyle = theme.text;
  context.globalAlpha = 0.5;
  context.fillRect(Math.round(x), plot.y, 1, plot.h);
  context.globalAlpha = 1;
}
