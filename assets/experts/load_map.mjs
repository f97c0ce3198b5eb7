/** Layers x experts on a canvas: how many tokens each expert gets, 1 being the mean of its layer. */
import { CanvasView } from '../lib/canvas/canvas_view.mjs';
import { colourTable, cssColour } from '../lib/canvas/colour.mjs';
import { cellAt, drawingOrder, expertTicks, geometryOf, movedCell, rowTicks } from './geometry.mjs';
import { cellLines, expertOf, layerText, rowOf } from './text.mjs';

const LEAST_WIDE = 2;  // px of a cell that stands out

export class LoadMap extends CanvasView {
  /** @param {Element} element @param {{label: string, choose: (expert: number[]) => void}} options */
  constructor(element, { label, choose }) {
    super(element, { label, className: 'experts-map' });
    this.data = null;
    this.chosen = null;
    this.onChoose = choose;
  }

  /** @param {import('./geometry.mjs').MapData} data */
  show(data) {
    this.data = data;
    this.order = drawingOrder(data.code);
    if (this.hovered && this.hovered.row >= data.layers.length) this.hovered = null;
    this.redraw();
  }

  /** @param {?number[]} expert as the view names it */
  mark(expert) {
    this.chosen = expert;
    this.redraw();
  }

  layout(width) {
    if (!this.data?.layers.length) return 0;
    this.geometry = geometryOf(this.data, width);
    return this.geometry.height;
  }

  paint(context, theme) {
    const { data, geometry: { plot, wide, high } } = this;
    const table = colourTable(theme);
    const gaps = [wide > 6 ? 1 : 0, high > 7 ? 1 : 0];
    for (const at of this.order) {
      const [row, expert] = [Math.floor(at / data.experts), at % data.experts];
      const least = data.code[at] >= 2 ? LEAST_WIDE : 1;
      context.fillStyle = cssColour(table, data.code[at]);
      context.fillRect(plot.x + expert * wide, plot.y + row * high, Math.max(wide - gaps[0], least), high - gaps[1]);
    }
    this.#axes(context, theme);
    this.#marks(context, theme);
  }

  #axes(context, theme) {
    const { data, geometry: { plot, wide, high } } = this;
    context.fillStyle = theme.quiet;
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    for (const row of rowTicks(data.layers.length, high)) {
      context.fillText(layerText(data.layers[row], true), plot.x - 6, plot.y + (row + 0.5) * high, plot.x - 8);
    }
    context.textAlign = 'center';
    context.textBaseline = 'top';
    for (const expert of expertTicks(data.experts, plot.w)) {
      context.fillText(String(expert), plot.x + (expert + 0.5) * wide, plot.y + plot.h + 4);
    }
    context.fillText('expert', plot.x + plot.w / 2, plot.y + plot.h + 18);
  }

  #marks(context, theme) {
    const row = this.chosen ? rowOf(this.data.layers, this.chosen) : -1;
    if (row >= 0 && this.chosen[1] < this.data.layers[row].experts) this.#frame(context, { row, expert: this.chosen[1] }, theme.link, 2);
    if (this.hovered) this.#frame(context, this.hovered, theme.text, 1);
  }

  #frame(context, { row, expert }, colour, line) {
    const { plot, wide, high } = this.geometry;
    context.strokeStyle = colour;
    context.lineWidth = line;
    const room = Math.max(0, 6 - wide) / 2;
    context.strokeRect(plot.x + expert * wide - room - 1, plot.y + row * high - 1, wide + 2 * room + 2, high + 1);
  }

  hitAt(point) { return this.geometry ? cellAt(this.data, this.geometry, point) : null; }

  lines(cell) { return cellLines(this.data, cell); }

  moved(cell, key) { return movedCell(this.data, cell, key); }

  pointOf({ row, expert }) {
    const { plot, wide, high } = this.geometry;
    return { x: plot.x + (expert + 0.5) * wide, y: plot.y + (row + 0.5) * high };
  }

  choose({ row, expert }) { this.onChoose(expertOf(this.data.layers[row], expert)); }
}
