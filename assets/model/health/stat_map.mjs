/** One statistic as a map of layers x steps. */
import { colourTable, paint } from '../../lib/canvas/colour.mjs';
import { blockOf, stepCount, xOfColumn } from '../../lib/canvas/step_axis.mjs';
import { formatNumber, stepsText } from '../../lib/value_text.mjs';
import { drawCursor, drawSteps, plotOf } from '../shared/plot_axes.mjs';
import { isPooled, placeLines } from '../shared/progress_axis.mjs';
import { codeOfValue, FAULT, levelText, passed, WARN } from '../shared/statistic_scale.mjs';
import { HealthCanvas } from './health_canvas.mjs';
import { drawnRowOf, rowLabel, rowsOf, rowText, stepsOf } from './health_data.mjs';

const ROW_PX = { least: 3, most: 20 };
const HEIGHT = { least: 110, most: 360 };

export class StatMap extends HealthCanvas {
  constructor(element, handlers) {
    super(element, { label: 'Statistic by layer and step', className: 'stat-map' }, handlers);
  }

  /** @param {import('./health_data.mjs').Health} data @param {import('../shared/statistic_scale.mjs').Scale} scale */
  show(data, scale) {
    const { statistic } = data;
    this.data = data;
    this.codes = Uint8Array.from(data.value, (value) => codeOfValue(value, statistic, scale));
    this.canvas.setAttribute('aria-label', `${statistic.title} of ${data.tensor}: ${data.rows.length} rows, ${data.num_steps} steps. `
      + 'Arrow keys move, Enter chooses a row; the table below has the numbers.');
    this.redraw();
  }

  layout(width) {
    if (!this.data?.width) return 0;
    const { height } = this.data;
    const rowPx = Math.min(ROW_PX.most, Math.max(ROW_PX.least, HEIGHT.most / height));
    const high = Math.min(HEIGHT.most, Math.max(HEIGHT.least, rowPx * height));
    this.geometry = plotOf(width, Math.round(high) + 48, leftOf(this.data, width));
    return this.geometry.height;
  }

  paint(context, theme) {
    const { data, geometry } = this;
    const { plot } = geometry;
    context.imageSmoothingEnabled = false;
    if (data.axis) this.#columns(context, this.#image(theme));
    else context.drawImage(this.#image(theme), plot.x, plot.y, plot.w, plot.h);
    this.#grid(context, theme);
    drawSteps(context, data, geometry, theme);
    this.#labels(context, theme);
    drawCursor(context, data, geometry, theme, this.cursor);
    context.strokeStyle = theme.text;
    const row = drawnRowOf(data, this.row);
    if (row >= 0) context.strokeRect(plot.x - 1.5, Math.round(this.#y(row)) - 0.5, plot.w + 3, Math.round(this.#y(row + 1) - this.#y(row)));
    if (this.hovered) {
      const [x, right] = [this.hovered.column, this.hovered.column + 1].map((edge) => xOfColumn(data, geometry, data.columns[edge]));
      context.lineWidth = 2;
      context.strokeRect(x, this.#y(this.hovered.row), Math.max(3, right - x), this.#y(this.hovered.row + 1) - this.#y(this.hovered.row));
    }
  }

  #image(theme) {
    const { data } = this;
    const canvas = document.createElement('canvas');
    Object.assign(canvas, { width: data.width, height: data.height });
    const context = canvas.getContext('2d', { willReadFrequently: true });
    const image = context.createImageData(data.width, data.height);
    paint(this.codes, colourTable(theme), image.data);
    context.putImageData(image, 0, 0);
    return canvas;
  }

  /** Columns as wide as on the axis; if several share a pixel, alarms are drawn on top. */
  #columns(context, image) {
    const { data, codes, geometry } = this;
    const draw = (column, row, rows) => {
      const [x, right] = [column, column + 1].map((edge) => Math.round(xOfColumn(data, geometry, data.columns[edge])));
      context.drawImage(image, column, row, 1, rows, x, this.#y(row), Math.max(1, right - x), this.#y(row + rows) - this.#y(row));
    };
    for (let column = 0; column < data.width; column++) draw(column, 0, data.height);
    codes.forEach((code, i) => { if (code === FAULT || code === WARN) draw(i % data.width, Math.floor(i / data.width), 1); });
  }

  #y(row) {
    return this.geometry.plot.y + this.geometry.plot.h * row / this.data.height;
  }

  /** Gaps between cells, if cells are large enough. */
  #grid(context, theme) {
    const { data, geometry: { plot } } = this;
    context.fillStyle = theme.panel;
    if (plot.h / data.height >= 6) {
      for (let row = 1; row < data.height; row++) context.fillRect(plot.x, Math.round(this.#y(row)) - 1, plot.w, 1);
    }
    if (plot.w / data.width >= 6) {
      for (let column = 1; column < data.width; column++) context.fillRect(Math.round(xOfColumn(data, this.geometry, data.columns[column])) - 1, plot.y, 1, plot.h);
    }
  }

  #labels(context, theme) {
    const { data, geometry: { plot } } = this;
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    context.fillStyle = theme.quiet;
    const every = Math.max(1, Math.ceil(13 / (plot.h / data.height)));
    for (let row = 0; row < data.height; row += every) {
      context.fillText(rowLabel(rowsOf(data, row)[0]), plot.x - 6, (this.#y(row) + this.#y(row + 1)) / 2, plot.x - 22);
    }
    context.save();
    context.translate(8, plot.y + plot.h / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = 'center';
    context.fillText(data.tensor === 'heads' ? 'layer · head' : 'layer', 0, 0);
    context.restore();
  }

  hitAt({ x, y }) {
    const { data, geometry } = this;
    if (!data?.width || !geometry) return null;
    const { plot } = geometry;
    const [across, down] = [(x - plot.x) / plot.w, (y - plot.y) / plot.h];
    if (!(across >= 0 && across < 1 && down >= 0 && down < 1)) return null;
    return { row: Math.floor(down * data.height), column: blockOf(data.columns, across * stepCount(data)) };
  }

  lines({ row, column }) {
    const { data } = this;
    const [first, last] = rowsOf(data, row);
    const who = first === last ? rowText(first) : `${rowText(first)} to ${rowText(last)}`;
    const value = data.value[row * data.width + column];
    const steps = stepsOf(data, column);
    const isBlock = first !== last || isPooled(data, column);
    const level = passed(value, data.statistic.levels);
    return [`${who}; ${stepsText(steps)}`, ...placeLines(data, column),
      `${data.statistic.title} ${formatNumber(value)}${isBlock ? ', the worst of the block' : ''}`,
      ...(level ? [levelText(level), level.source] : [])];
  }

  pointOf({ row, column }) {
    return { x: xOfColumn(this.data, this.geometry, this.data.columns[column]), y: this.#y(row) };
  }
}

/** Room for the longest label, within bounds. */
export function leftOf(data, width) {
  const longest = Math.max(0, ...data.rows.map((row) => rowLabel(row).length));
  return Math.min(Math.max(48, 26 + 6.2 * longest), Math.max(60, width * 0.3));
}
