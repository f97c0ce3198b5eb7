/** Sizes of the values of one row: steps to the right, powers of two upwards, the share as colour. */
import { CanvasView } from '../../lib/canvas/canvas_view.mjs';
import { colourTable, cssColour, STRONGEST } from '../../lib/canvas/colour.mjs';
import { blockOf, stepCount, xOfColumn } from '../../lib/canvas/step_axis.mjs';
import { stepsText } from '../../lib/value_text.mjs';
import { drawCursor, drawSteps, plotOf } from '../shared/plot_axes.mjs';
import { placeLines } from '../shared/progress_axis.mjs';
import { stepsOf } from './health_data.mjs';

const HEIGHT = 250;
const LEFT = 62;
const LEAST_SHARE = 1e-4;  // below it a bin is drawn as empty

/** First and last bin that is not empty; null if all are. @returns {?[number, number]} */
export function usedBins(share, width) {
  const bins = [];
  for (let i = 0; i < share.length; i++) if (share[i] >= LEAST_SHARE) bins.push(Math.floor(i / width));
  return bins.length ? [bins[0], bins[bins.length - 1]] : null;
}

/** "2^-5" with the exponent raised. */
export function powerOfTwo(exponent) {
  return `2${String(exponent).replace(/[-0-9]/g, (sign) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[sign] ?? '⁻')}`;
}

export class Histogram extends CanvasView {
  /** @param {{pointed: (step: ?number) => void}} handlers */
  constructor(element, handlers) {
    super(element, { label: 'Sizes of values by step', className: 'histogram' });
    Object.assign(this, { handlers, data: null, cursor: null });
  }

  /** @param {?Object} data histogramData() @param {string} rowName */
  show(data, rowName) {
    this.data = data;
    this.bins = data && usedBins(data.share, data.width);
    this.highest = data ? data.share.reduce((most, share) => Math.max(most, share), 0) : 0;
    this.canvas.setAttribute('aria-label', `Magnitudes of the values of ${rowName} by powers of two, over the steps. Arrow keys move.`);
    this.redraw();
  }

  layout(width) {
    if (!this.bins) return 0;
    this.geometry = plotOf(width, HEIGHT, LEFT);
    return HEIGHT;
  }

  #rows() {
    return this.bins[1] - this.bins[0] + 1;
  }

  /** y of the upper side of a bin; the greatest sizes are on top. */
  #y(bin) {
    const { plot } = this.geometry;
    return plot.y + plot.h * (this.bins[1] - bin) / this.#rows();
  }

  paint(context, theme) {
    const { data, geometry, bins } = this;
    const table = colourTable(theme);
    for (let bin = bins[0]; bin <= bins[1]; bin++) {
      const [y, below] = [this.#y(bin), this.#y(bin - 1)];
      for (let column = 0; column < data.width; column++) {
        const share = data.share[bin * data.width + column];
        if (share < LEAST_SHARE) continue;
        const x = xOfColumn(data, geometry, data.columns[column]);
        context.fillStyle = cssColour(table, 2 * Math.max(1, Math.round(share / this.highest * STRONGEST)));
        context.fillRect(x, y, Math.max(1, xOfColumn(data, geometry, data.columns[column + 1]) - x + 0.3), Math.max(1, below - y - 0.5));
      }
    }
    this.#labels(context, theme);
    drawSteps(context, data, geometry, theme);
    if (this.hovered) {
      const x = xOfColumn(data, geometry, data.columns[this.hovered.column]);
      context.strokeStyle = theme.text;
      context.lineWidth = 2;
      context.strokeRect(x, this.#y(this.hovered.bin), Math.max(3, xOfColumn(data, geometry, data.columns[this.hovered.column + 1]) - x), this.#y(this.hovered.bin - 1) - this.#y(this.hovered.bin));
    }
    drawCursor(context, data, geometry, theme, this.cursor);
  }

  #labels(context, theme) {
    const { plot } = this.geometry;
    const every = Math.max(1, Math.ceil(16 / (plot.h / this.#rows())));
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    context.fillStyle = theme.quiet;
    for (let bin = this.bins[0]; bin <= this.bins[1]; bin += every) {
      context.fillText(powerOfTwo(bin + this.data.first_exponent), plot.x - 7, this.#y(bin - 1));
    }
  }

  hitAt({ x, y }) {
    const { data, geometry } = this;
    if (!this.bins || !geometry) return null;
    const { plot } = geometry;
    const [across, down] = [(x - plot.x) / plot.w, (y - plot.y) / plot.h];
    if (!(across >= 0 && across < 1 && down >= 0 && down < 1)) return null;
    return { bin: this.bins[1] - Math.floor(down * this.#rows()), column: blockOf(data.columns, across * stepCount(data)) };
  }

  lines({ bin, column }) {
    const { data } = this;
    const exponent = bin + data.first_exponent;
    return [stepsText(stepsOf(data, column)), ...placeLines(data, column), `${powerOfTwo(exponent)} to ${powerOfTwo(exponent + 1)}: `
      + `${(100 * data.share[bin * data.width + column]).toFixed(2)} % of the values`];
  }

  moved(hit, key) {
    if (!this.bins) return null;
    if (!hit) return { bin: this.bins[1], column: this.data.width - 1 };
    const [up, right] = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key];
    return {
      bin: Math.min(this.bins[1], Math.max(this.bins[0], hit.bin + up)), column: Math.min(this.data.width - 1, Math.max(0, hit.column + right)),
    };
  }

  pointOf({ bin, column }) {
    return { x: xOfColumn(this.data, this.geometry, this.data.columns[column]), y: this.#y(bin) };
  }

  pointed(hit) {
    this.handlers.pointed(hit ? this.data.firstStep[hit.column] : null);
  }
}
