/** Losses over the steps: one or two lines, with the windows of perturbations shaded. */
import { CanvasView } from '../../lib/canvas/canvas_view.mjs';
import { lineScale } from '../../lib/canvas/line_scale.mjs';
import { formatNumber, stepsText } from '../../lib/value_text.mjs';
import { drawSteps, drawValues, plotOf } from '../shared/plot_axes.mjs';
import { columnAt } from './loss_series.mjs';

const HEIGHT = 270;
const LEFT = 58;
const DASHES = [5, 4];

/**
 * @typedef {Object} Line
 * @property {string} name @property {import('./loss_series.mjs').Losses} losses @property {boolean} isWithout
 * @property {?Function} expected step -> loss, of a line that is extrapolated, not logged
 * @typedef {Object} Window
 * @property {?string} key @property {string} text @property {number} first @property {number} last
 */
export class LossPlot extends CanvasView {
  /** @param {{label: string}} options @param {{chosen: (key: string) => void, pointed: (step: ?number) => void}} handlers */
  constructor(element, { label }, handlers) {
    super(element, { label, className: 'loss-plot' });
    Object.assign(this, { label, handlers, lines_L: [], windows: [], steps: null, cursor: null, chosen: null });
  }

  /**
   * @param {Line[]} lines @param {Window[]} windows @param {?[number, number]} steps first and last on the axis, null: none
   * @param {?string} chosen key of a window
   */
  show(lines, windows, steps, chosen) {
    Object.assign(this, { lines_L: lines, windows, steps, chosen });
    this.scale = lineScale(lines.map(({ losses }) => losses));
    if (steps) this.canvas.setAttribute('aria-label', `${this.label}: ${lines.map(({ name }) => name).join(', ')}, ${stepsText(steps)}, `
      + `${windows.length} perturbation${windows.length === 1 ? '' : 's'} shaded. Arrow keys move, Enter chooses a perturbation.`);
    this.redraw();
  }

  layout(width) {
    if (!this.steps || !this.lines_L.length) return 0;
    this.geometry = plotOf(width, HEIGHT, LEFT);
    return HEIGHT;
  }

  paint(context, theme) {
    const [first, last] = this.steps;
    this.#shade(context, theme);
    drawValues(context, this.scale.ticks, this.geometry, theme);
    drawSteps(context, { width: 1, columns: [0, last - first + 1], firstStep: [first], lastStep: [last] }, this.geometry, theme);
    for (const line of this.lines_L) if (line.isWithout) this.#line(context, theme, line, theme.quiet, DASHES);
    for (const line of this.lines_L) if (!line.isWithout) this.#line(context, theme, line, theme.link, []);
    this.#point(context, theme);
  }

  /** Shade the windows; the chosen one is darker and between two lines. */
  #shade(context, theme) {
    const { plot } = this.geometry;
    for (const { key, first, last } of this.windows) {
      const from = Math.max(plot.x, this.#x(first - 0.5));
      const to = Math.min(plot.x + plot.w, this.#x(last + 0.5));
      if (to < plot.x || from > plot.x + plot.w) continue;
      context.fillStyle = context.strokeStyle = theme.tp;
      context.globalAlpha = key === this.chosen ? 0.22 : 0.1;
      context.fillRect(from, plot.y, Math.max(2, to - from), plot.h);
      context.globalAlpha = 1;
      if (key !== this.chosen) continue;
      context.fillRect(Math.round(from), plot.y, 1, plot.h);
      context.fillRect(Math.round(to) - 1, plot.y, 1, plot.h);
    }
  }

  #line(context, theme, { losses }, colour, dash) {
    const { plot } = this.geometry;
    context.save();
    context.beginPath();
    context.rect(plot.x, 0, plot.w, plot.y + plot.h + 1);
    context.clip();
    context.strokeStyle = context.fillStyle = colour;
    const isPooled = losses.first.some((step, column) => step !== losses.last[column]);
    if (isPooled) this.#band(context, losses);
    context.setLineDash(dash);
    context.lineWidth = 1.5;
    context.lineJoin = 'round';
    context.beginPath();
    let isDown = false;
    losses.mean.forEach((value, column) => {
      if (Number.isNaN(value)) { isDown = false; return; }
      const [x, y] = [this.#xOf(losses, column), this.#y(value)];
      if (isDown) context.lineTo(x, y);
      else context.moveTo(x, y);
      isDown = true;
    });
    context.stroke();
    context.setLineDash([]);
    if (losses.mean.length === 1) context.fillRect(this.#xOf(losses, 0) - 2, this.#y(losses.mean[0]) - 2, 4, 4);
    context.fillStyle = theme.fault;
    losses.bad.forEach((count, column) => { if (count) context.fillRect(this.#xOf(losses, column) - 1.5, plot.y, 3, 8); });
    context.restore();
  }

  /** Range from least to greatest loss of each column. */
  #band(context, losses) {
    context.globalAlpha = 0.25;
    losses.least.forEach((value, column) => {
      const [top, bottom] = [this.#y(losses.greatest[column]), this.#y(value)];
      if (!Number.isNaN(value)) context.fillRect(this.#xOf(losses, column) - 0.5, top, 1, Math.max(1, bottom - top));
    });
    context.globalAlpha = 1;
  }

  #point(context, theme) {
    const step = this.hovered?.step ?? this.cursor;
    if (step === null || step < this.steps[0] || step > this.steps[1]) return;
    const { plot } = this.geometry;
    context.fillStyle = theme.text;
    context.globalAlpha = 0.4;
    context.fillRect(Math.round(this.#x(step)), plot.y, 1, plot.h);
    context.globalAlpha = 1;
    for (const { losses, expected } of this.lines_L) {
      if (expected) continue;
      const column = columnAt(losses, step);
      if (column < 0 || Number.isNaN(losses.mean[column])) continue;
      context.beginPath();
      context.arc(this.#xOf(losses, column), this.#y(losses.mean[column]), 3, 0, 7);
      context.fill();
    }
  }

  #x(step) {
    const { plot } = this.geometry;
    const [first, last] = this.steps;
    return plot.x + plot.w * (step - first + 0.5) / (last - first + 1);
  }

  #xOf(losses, column) {
    return this.#x((losses.first[column] + losses.last[column]) / 2);
  }

  #y(value) {
    const { plot } = this.geometry;
    return plot.y + plot.h * (1 - this.scale.share(value));
  }

  hitAt({ x, y }) {
    if (!this.geometry || !this.steps) return null;
    const { plot } = this.geometry;
    if (x < plot.x || x >= plot.x + plot.w || y < 0 || y > plot.y + plot.h) return null;
    const [first, last] = this.steps;
    return { step: Math.min(last, first + Math.floor((x - plot.x) / plot.w * (last - first + 1))) };
  }

  lines({ step }) {
    const lossTexts = this.lines_L.flatMap(({ name, losses, expected }) => {
      if (expected) return [`${name}: ${formatNumber(expected(step))}`];
      const column = columnAt(losses, step);
      if (column < 0) return [];
      const isSingle = losses.first[column] === losses.last[column];
      const value = Number.isNaN(losses.mean[column]) ? 'not finite' : formatNumber(losses.mean[column]);
      const where = losses.first[column] <= step && step <= losses.last[column] && isSingle ? '' : ` (${isSingle ? '' : 'mean of '}${stepsText([losses.first[column], losses.last[column]])})`;
      return [`${name}: ${value}${where}`];
    });
    return [`step ${step}`, ...lossTexts, ...this.#windowsAt(step).map(({ text }) => text)];
  }

  #windowsAt(step) {
    return this.windows.filter(({ first, last }) => step >= first && step <= last);
  }

  moved(hit, key) {
    if (!this.steps) return null;
    const [first, last] = this.steps;
    if (!hit) return { step: last };
    const by = Math.max(1, Math.round((last - first) / 200)) * ({ ArrowLeft: -1, ArrowRight: 1 }[key] ?? 0);
    return { step: Math.min(last, Math.max(first, hit.step + by)) };
  }

  pointOf({ step }) {
    return { x: this.#x(step), y: 30 };
  }

  choose({ step }) {
    const [window] = this.#windowsAt(step);
    if (window?.key) this.handlers.chosen(window.key);
  }

  pointed(hit) {
    this.handlers.pointed(hit?.step ?? null);
  }
}
