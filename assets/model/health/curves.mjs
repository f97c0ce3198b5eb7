/** The statistic of each layer over the steps as lines, smoothed on request; the chosen line is highlighted. */
import { blockOf, stepCount } from '../../lib/canvas/step_axis.mjs';
import { formatNumber, stepsText } from '../../lib/value_text.mjs';
import { drawCursor, drawSteps, drawValues, plotOf } from '../shared/plot_axes.mjs';
import { placeLines, xOfMiddle, xOfPlace, xOfStepMiddle } from '../shared/progress_axis.mjs';
import { HealthCanvas } from './health_canvas.mjs';
import { drawnRowOf, rowsOf, rowText, smoothed, stepsOf } from './health_data.mjs';

const HEIGHT = 250;
const LEFT = 62;
const NEAR_PX = 14;

export class Curves extends HealthCanvas {
  /** @param {{chosen: (key: string, step: number) => void, pointed: (step: ?number) => void}} handlers */
  constructor(element, handlers) {
    super(element, { label: 'Curves by layer', className: 'curves' }, handlers);
    Object.assign(this, { weight: 0, comparison: null });
  }

  /** @param {import('./health_data.mjs').Health} data @param {import('../shared/statistic_scale.mjs').Scale} scale */
  show(data, scale) {
    Object.assign(this, { data, scale });
    this.canvas.setAttribute('aria-label', `${data.statistic.title} of ${data.tensor} over the steps, a line for each row. `
      + 'Arrow keys move along and between the lines, Enter chooses one.');
    this.smooth(this.weight);
  }

  smooth(weight) {
    this.weight = weight;
    if (!this.data) return;
    this.lines_RW = Array.from({ length: this.data.height }, (_, row) => smoothed(this.#raw(row), weight));
    this.redraw();
  }

  #raw(row) {
    return this.data.value.subarray(row * this.data.width, (row + 1) * this.data.width);
  }

  layout(width) {
    if (!this.data?.width) return 0;
    this.geometry = plotOf(width, HEIGHT, LEFT);
    return HEIGHT;
  }

  paint(context, theme) {
    const { data, geometry, scale } = this;
    drawValues(context, scale.ticks, geometry, theme);
    drawSteps(context, data, geometry, theme);
    this.#levels(context, theme);
    const chosen = drawnRowOf(data, this.row);
    context.lineJoin = 'round';
    const alpha = Math.max(0.1, Math.min(0.55, 8 / data.height));  // many lines must not merge into a block
    for (let row = 0; row < data.height; row++) if (row !== chosen) this.#line(context, this.lines_RW[row], theme.link, 1, alpha);
    if (chosen >= 0 && this.weight > 0) this.#line(context, this.#raw(chosen), theme.text, 1, 0.3);
    if (chosen >= 0) this.#line(context, this.lines_RW[chosen], theme.text, data.width > 300 ? 1 : 2, 1);
    if (this.comparison) this.#drawComparison(context, theme);
    if (this.hovered) {
      this.#line(context, this.lines_RW[this.hovered.row], theme.link, 2, 1);
      context.fillStyle = theme.text;
      context.beginPath();
      context.arc(this.#x(this.hovered.column), this.#y(this.lines_RW[this.hovered.row][this.hovered.column]), 3.5, 0, 7);
      context.fill();
    }
    drawCursor(context, data, geometry, theme, this.cursor);
  }

  /** Dashed lines at the levels inside the plot. */
  #levels(context, theme) {
    const { plot } = this.geometry;
    context.setLineDash([5, 4]);
    for (const level of this.data.statistic.levels) {
      const share = this.scale.share(level.value);
      if (share <= 0 || share >= 1) continue;
      const y = Math.round(this.#y(level.value)) + 0.5;
      context.strokeStyle = context.fillStyle = level.severity === 'usual' ? theme.quiet : theme.fault;
      context.beginPath();
      context.moveTo(plot.x, y);
      context.lineTo(plot.x + plot.w, y);
      context.stroke();
      context.textAlign = 'right';
      context.textBaseline = 'bottom';
      context.fillText(level.text, plot.x + plot.w - 4, y - 2, plot.w - 8);
    }
    context.setLineDash([]);
  }

  /** The chosen row in another run, dashed. @see import('./comparison_run.mjs') */
  #drawComparison(context, theme) {
    const { data, geometry } = this;
    const { plot } = geometry;
    const [first, last] = [data.firstStep[0], data.lastStep[data.width - 1]];
    context.strokeStyle = theme.tp;
    context.lineWidth = 2;
    context.setLineDash([5, 3]);
    context.beginPath();
    let isDown = false;
    this.comparison.steps.forEach((step, i) => {
      const x = data.axis ? xOfPlace(data, geometry, this.comparison.places[i]) : xOfStepMiddle(data, geometry, step);
      if (data.axis ? x < plot.x || x > plot.x + plot.w : step < first || step > last) return;
      const y = this.#y(this.comparison.values[i]);
      if (isDown) context.lineTo(x, y);
      else context.moveTo(x, y);
      isDown = true;
    });
    context.stroke();
    context.setLineDash([]);
    context.lineWidth = 1;
  }

  #line(context, values, colour, width, alpha) {
    context.strokeStyle = context.fillStyle = colour;
    context.globalAlpha = alpha;
    context.lineWidth = width;
    context.beginPath();
    let isDown = false;
    values.forEach((value, column) => {
      if (Number.isNaN(value)) { isDown = false; return; }
      const [x, y] = [this.#x(column), this.#y(value)];
      if (isDown) context.lineTo(x, y);
      else context.moveTo(x, y);
      isDown = true;
    });
    context.stroke();
    if (values.length === 1) context.fillRect(this.#x(0) - 2, this.#y(values[0]) - 2, 4, 4);
    context.globalAlpha = 1;
  }

  #x(column) {
    return xOfMiddle(this.data, this.geometry, column);
  }

  #y(value) {
    const { plot } = this.geometry;
    return plot.y + plot.h * (1 - this.scale.share(value));
  }

  /** The line nearest to the point, if one is near. */
  hitAt({ x, y }) {
    const { data, geometry } = this;
    if (!data?.width || !geometry) return null;
    const across = (x - geometry.plot.x) / geometry.plot.w;
    if (!(across >= 0 && across < 1)) return null;
    const column = blockOf(data.columns, across * stepCount(data));
    let [best, distance] = [null, NEAR_PX];
    this.lines_RW.forEach((line, row) => {
      const lineDistance = Math.abs(this.#y(line[column]) - y);
      if (lineDistance < distance) [best, distance] = [row, lineDistance];
    });
    return best === null ? null : { row: best, column };
  }

  lines({ row, column }) {
    const { data } = this;
    const value = data.value[row * data.width + column];
    const shown = this.weight > 0 ? [`smoothed ${formatNumber(this.lines_RW[row][column])}`] : [];
    return [`${rowText(rowsOf(data, row)[0])}; ${stepsText(stepsOf(data, column))}`, ...placeLines(data, column), `${data.statistic.title} ${formatNumber(value)}`, ...shown];
  }

  pointOf({ row, column }) {
    return { x: this.#x(column), y: this.#y(this.lines_RW[row][column]) || 0 };
  }
}
