/** Lines over steps on a canvas, with the band that a fair router would show. */
import { CanvasView } from '../lib/canvas/canvas_view.mjs';
import { niceTicks, roundTicks } from '../lib/canvas/ticks.mjs';
import { chartOf, stepAt } from './geometry.mjs';

const HEIGHT = 190;

/**
 * @typedef {Object} ChartData
 * @property {ArrayLike<number>} step
 * @property {{values: ArrayLike<number>, colour: string, wide: number}[]} lines colour: a name of the theme
 * @property {{low: ArrayLike<number>, high: ArrayLike<number>}} band
 * @property {(at: number) => string[]} describe lines of the tooltip of a position
 */
export class StepChart extends CanvasView {
  /** @param {Element} element @param {{label: string, choose: (step: number) => void}} options */
  constructor(element, { label, choose }) {
    super(element, { label, className: 'experts-chart' });
    this.data = null;
    this.onChoose = choose;
  }

  /** @param {ChartData} data */
  show(data) {
    this.data = data;
    const known = [...data.lines.map(({ values }) => values), data.band.high].flatMap((values) => [...values].filter(Number.isFinite));
    this.top = 1.08 * Math.max(...known, 0.1);
    if (this.hovered && this.hovered.at >= data.step.length) this.hovered = null;
    this.redraw();
  }

  layout(width) {
    if (!this.data?.step.length) return 0;
    this.chart = chartOf(this.data.step, this.top, width, HEIGHT);
    return HEIGHT;
  }

  paint(context, theme) {
    this.#axes(context, theme);
    this.#band(context, theme);
    for (const line of this.data.lines) this.#line(context, line, theme[line.colour]);
    if (!this.hovered) return;
    const { plot, x } = this.chart;
    context.fillStyle = theme.text;
    context.fillRect(Math.round(x(this.data.step[this.hovered.at])), plot.y, 1, plot.h);
  }

  #axes(context, theme) {
    const { plot, x, y, first, last, top } = this.chart;
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    for (const value of roundTicks(0, top, 5)) {
      context.fillStyle = theme.line;
      context.fillRect(plot.x, Math.round(y(value)), plot.w, 1);
      context.fillStyle = theme.quiet;
      context.fillText(String(value), plot.x - 6, y(value));
    }
    context.textAlign = 'center';
    context.textBaseline = 'top';
    for (const step of niceTicks(first, last, plot.w / 70)) context.fillText(String(step), x(step), plot.y + plot.h + 5);
    context.fillText('step', plot.x + plot.w / 2, plot.y + plot.h + 19);
  }

  #band(context, theme) {
    const { step, band } = this.data;
    const { x, y } = this.chart;
    context.globalAlpha = 0.3;
    context.fillStyle = theme.faint;
    context.beginPath();
    const known = Array.from(step, (_, at) => at).filter((at) => Number.isFinite(band.high[at]));
    known.forEach((at) => context.lineTo(x(step[at]), y(band.high[at])));
    known.reverse().forEach((at) => context.lineTo(x(step[at]), y(band.low[at])));
    context.fill();
    context.globalAlpha = 1;
  }

  #line(context, { values, wide }, colour) {
    const { step } = this.data;
    const { x, y } = this.chart;
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = wide;
    context.lineJoin = 'round';
    context.beginPath();
    let isOpen = false;
    for (let at = 0; at < step.length; at++) {
      if (!Number.isFinite(values[at])) isOpen = false;
      else {
        context[isOpen ? 'lineTo' : 'moveTo'](x(step[at]), y(values[at]));
        isOpen = true;
      }
    }
    context.stroke();
    if (step.length === 1) context.fillRect(x(step[0]) - 3, y(values[0]) - 1, 6, 2);
  }

  hitAt({ x }) {
    const { plot } = this.chart ?? {};
    if (!plot || x < plot.x - 4 || x > plot.x + plot.w + 4) return null;
    return { at: stepAt(this.data.step, this.chart, x) };
  }

  lines({ at }) { return this.data.describe(at); }

  moved(hit, key) {
    if (!hit) return { at: this.data.step.length - 1 };
    const by = { ArrowLeft: -1, ArrowRight: 1 }[key] ?? 0;
    return { at: Math.min(Math.max(hit.at + by, 0), this.data.step.length - 1) };
  }

  pointOf({ at }) { return { x: this.chart.x(this.data.step[at]), y: this.chart.plot.y + 20 }; }

  choose({ at }) { this.onChoose(this.data.step[at]); }
}
