/** The matrix of pairs on a canvas, its scale, and a table of the slowest pairs. */
import { CanvasView } from '../lib/canvas/canvas_view.mjs';
import { colourTable, cssColour, inkOn, NO_DATA } from '../lib/canvas/colour.mjs';
import { make } from '../lib/dom.mjs';
import { cutInMiddle } from '../lib/value_text.mjs';
import { amount, cellAt, cellLines, cellText, codeOfValue, FULL, geometryOf, isReadable, moved, nameOf, SCALE, slowestPairs, slownessOf, timesText, valueAt } from './cells.mjs';

const MOST_ROWS = 20;
const LETTER_PX = 7;

export class MatrixView extends CanvasView {
  constructor(element, app) {
    super(element, { label: 'Bandwidth between each two', className: 'selftest-matrix' });
    Object.assign(this, { app, matrix: null });
    this.scale = make('div', { class: 'map-legend' });
    this.table = make('details', { class: 'worst-cells' });
    element.append(this.scale, this.table);
  }

  /** @param {?import('./cells.mjs').Matrix} matrix */
  show(matrix) {
    this.matrix = matrix;
    this.hovered = null;
    this.tip.hidden = true;
    const worst = matrix ? slowestPairs(matrix, MOST_ROWS) : [];
    this.table.hidden = this.scale.hidden = !worst.length;
    if (worst.length) {
      const [first] = worst;
      this.canvas.setAttribute('aria-label', `Bandwidth between ${matrix.names.length} ${matrix.what}s; slowest `
        + `${nameOf(matrix, first.row)} and ${nameOf(matrix, first.column)} with ${amount(first.value)} ${matrix.unit}. Arrow keys move.`);
      this.table.replaceChildren(make('summary', {}, worst.length === 1 ? 'The pair as a table' : `The ${worst.length} slowest pairs as a table`), this.#rows(worst));
    }
    this.redraw();
  }

  #rows(worst) {
    const { matrix } = this;
    const titles = ['pair', `bandwidth, ${matrix.unit}`, 'against the median', 'measured'];
    return make('div', { class: 'scroll' }, make('table', {},
      make('thead', {}, make('tr', {}, titles.map((title) => make('th', { scope: 'col' }, title)))),
      make('tbody', {}, worst.map((pair) => make('tr', {},
        make('th', { scope: 'row' }, cellLines(matrix, pair)[0]),
        make('td', { class: 'number' }, amount(pair.value)),
        make('td', {}, timesText(slownessOf(matrix, pair.value))),
        make('td', { class: 'quiet' }, cellLines(matrix, pair)[2] ?? ''))))));
  }

  layout(width) {
    if (!this.matrix?.names.length) return 0;
    this.geometry = geometryOf(this.matrix, width);
    return this.geometry.height;
  }

  paint(context, theme) {
    const table = colourTable(theme);
    this.#cells(context, theme, table);
    this.#names(context, theme);
    this.#showScale(table);
  }

  #cells(context, theme, table) {
    const { matrix, geometry: { x, y, cell } } = this;
    const gap = isReadable(this.geometry) ? 1 : 0;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (let row = 0; row < matrix.names.length; row++) {
      for (let column = 0; column < matrix.names.length; column++) {
        const value = valueAt(matrix, { row, column });
        const code = codeOfValue(matrix, value);
        const [left, top] = [x + cell * column, y + cell * row];
        context.fillStyle = code === NO_DATA ? theme.raised : cssColour(table, code);
        context.fillRect(left, top, cell - gap, cell - gap);
        if (cell < 30 || code === NO_DATA) continue;
        context.fillStyle = inkOn([...table.subarray(4 * code, 4 * code + 3)]);
        context.fillText(cellText(value), left + (cell - gap) / 2, top + cell / 2);
      }
    }
    if (this.hovered) {
      context.strokeStyle = theme.text;
      context.lineWidth = 2;
      context.strokeRect(x + cell * this.hovered.column, y + cell * this.hovered.row, cell - gap, cell - gap);
    }
  }

  #names(context, theme) {
    const { matrix: { names }, geometry: { x, y, cell } } = this;
    context.fillStyle = theme.quiet;
    context.textBaseline = 'middle';
    const everyRow = Math.max(1, Math.ceil(13 / cell));
    context.textAlign = 'right';
    for (let row = 0; row < names.length; row += everyRow) {
      context.fillText(cutInMiddle(names[row], Math.floor((x - 8) / LETTER_PX)), x - 6, y + cell * (row + 0.5));
    }
    context.textAlign = 'center';
    const longest = Math.max(...names.map((name) => name.length));
    const everyColumn = Math.max(1, Math.ceil(Math.min(longest * LETTER_PX + 6, 60) / cell));
    for (let column = 0; column < names.length; column += everyColumn) {
      const room = Math.floor((cell * everyColumn - 4) / LETTER_PX);
      context.fillText(cutInMiddle(names[column], room), x + cell * (column + 0.5), y - 9);
    }
  }

  #showScale(table) {
    const colours = table.join();
    if (colours === this.colours) return;
    this.colours = colours;
    const bar = make('div', { class: 'scale-bar' });
    bar.style.background = `linear-gradient(to right, ${SCALE.map((code) => cssColour(table, code)).join(', ')})`;
    const ticks = [-1, -0.5, 0, 0.5, 1].map((at) => {
      const tick = make('span', {}, `${{ '-1': '≤ ', 1: '≥ ' }[at] ?? ''}${2 ** (FULL * at)} x`);
      tick.style.left = `${50 + 50 * at}%`;
      return tick;
    });
    const label = 'Colour scale: time against the median pair, from a quarter or less over grey, as usual, to four times or more';
    this.scale.replaceChildren(make('div', { class: 'scale', role: 'img', 'aria-label': label }, [bar, make('div', { class: 'scale-ticks' }, ticks)]));
  }

  hitAt(point) {
    return this.geometry && this.matrix ? cellAt(this.matrix, this.geometry, point) : null;
  }

  lines(hit) { return cellLines(this.matrix, hit); }

  moved(hit, key) { return this.matrix ? moved(this.matrix, hit, key) : null; }

  pointOf({ row, column }) {
    const { x, y, cell } = this.geometry;
    return { x: x + cell * (column + 0.5), y: y + cell * (row + 0.5) };
  }

  choose({ row }) {
    if (this.matrix.what === 'rank') this.app.set({ rank: Number(this.matrix.names[row]) });
  }
}
