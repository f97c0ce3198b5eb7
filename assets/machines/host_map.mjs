/** Hosts x columns on a canvas: how far each host is from the median host, one colour a cell. */
import { colourTable, cssColour, inkOn } from '../lib/canvas/colour.mjs';
import { CanvasView } from '../lib/canvas/canvas_view.mjs';
import { cellAt, drawingOrder, geometryOf, hostTicks, movedCell } from './geometry.mjs';
import { cellLines } from './messages.mjs';

const LEAST_HIGH = 3;  // px of a cell with a colour

export class HostMap extends CanvasView {
  /** @param {Element} element @param {{label: string, choose: (host: string) => void}} options */
  constructor(element, { label, choose }) {
    super(element, { label, className: 'machines-map' });
    this.data = null;
    this.chosen = null;
    this.onChoose = choose;
  }

  /** @param {import('./geometry.mjs').MapData} data */
  show(data) {
    this.data = data;
    this.redraw();
  }

  mark(host) {
    this.chosen = host;
    this.redraw();
  }

  layout(width) {
    if (!this.data?.hosts.length || !this.data.columns.length) return 0;
    this.geometry = geometryOf(this.data, width);
    return this.geometry.height;
  }

  paint(context, theme) {
    const { data, geometry } = this;
    const { plot, wide, high } = geometry;
    const table = colourTable(theme);
    const count = data.columns.length;
    for (const at of drawingOrder(data.code)) {
      const [row, column] = [Math.floor(at / count), at % count];
      const least = data.code[at] >= 2 ? LEAST_HIGH : 1;  // one host of 1,536 must be seen
      context.fillStyle = cssColour(table, data.code[at]);
      context.fillRect(plot.x + column * wide, plot.y + row * high, Math.max(wide - (wide > 5 ? 1 : 0), 1), Math.max(high - (high > 5 ? 1 : 0), least));
    }
    this.#axes(context, theme);
    this.#marks(context, theme);
  }

  #axes(context, theme) {
    const { data, geometry: { plot, wide, high, isFlat } } = this;
    context.fillStyle = theme.quiet;
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    for (const row of hostTicks(data.hosts.length, high)) {
      context.fillText(data.hosts[row] || 'unknown', plot.x - 6, plot.y + (row + 0.5) * high, plot.x - 10);
    }
    context.textAlign = 'left';
    if (wide < 12) return;
    data.columns.forEach((column, number) => {
      if (isFlat) {
        context.fillText(column.title, plot.x + number * wide, plot.y - 9, wide - 4);
        return;
      }
      context.save();
      context.translate(plot.x + (number + 0.5) * wide, plot.y - 5);
      context.rotate(-Math.PI / 3);
      context.fillText(column.title, 0, 0, 150);
      context.restore();
    });
  }

  #marks(context, theme) {
    const { data, geometry: { plot, wide, high } } = this;
    const row = data.hosts.indexOf(this.chosen);
    if (row >= 0) {
      const y = plot.y + row * high;
      context.strokeStyle = context.fillStyle = theme.link;
      context.lineWidth = 1.5;
      if (high >= 6) context.strokeRect(plot.x - 1, y - 1, plot.w + 2, high + 1);
      else for (const x of [plot.x - 5, plot.x + plot.w + 1]) context.fillRect(x, y - 2, 4, LEAST_HIGH + 4);
    }
    if (this.hovered) {
      const { row: at, column } = this.hovered;
      context.strokeStyle = theme.text;
      context.lineWidth = 1;
      context.strokeRect(plot.x + column * wide - 0.5, plot.y + at * high - 0.5, Math.max(wide, 3), Math.max(high, 3));
    }
  }

  hitAt(point) { return this.geometry ? cellAt(this.data, this.geometry, point) : null; }

  lines(cell) { return cellLines(this.data, cell); }

  moved(cell, key) { return movedCell(this.data, cell, key); }

  pointOf({ row, column }) {
    const { plot, wide, high } = this.geometry;
    return { x: plot.x + (column + 0.5) * wide, y: plot.y + (row + 0.5) * high };
  }

  choose({ row }) { this.onChoose(this.data.hosts[row]); }
}

/** Colour of a cell of a table, and the ink on it. @returns {?{back: string, ink: string}} */
export function cellColours(code, theme) {
  if (code < 2) return null;
  const table = colourTable(theme);
  return { back: cssColour(table, code), ink: inkOn([...table.slice(4 * code, 4 * code + 3)]) };
}
