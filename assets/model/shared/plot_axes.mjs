/** Axes of the plots over steps, or over what steps stand at. Draws on the 2D context it is given. */
import { stepTicks } from '../../lib/canvas/step_axis.mjs';
import { axisTitle, placeTicks, xOfStepMiddle } from './progress_axis.mjs';

/** Where a plot lies on a canvas of this size: room for labels at the left, for steps below. */
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

/** Values up the left side. @param {{at: number, text: string}[]} ticks at: 0 below, 1 above */
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

/** A line at the step that is pointed at in any of the plots. */
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
