/** One frame in full: rows are tokens; for attention, columns are tokens, too. */
import { CanvasView } from '../../lib/canvas/canvas_view.mjs';
import { colourTable, paint } from '../../lib/canvas/colour.mjs';
import { niceTicks } from '../../lib/canvas/ticks.mjs';
import { make } from '../../lib/dom.mjs';
import { axisText, frameText, isShare, nameText, tokenOf, tokenText } from '../shared/frame.mjs';
import { codesOf, peakOf } from '../shared/frame_codes.mjs';
import { scaleBar } from '../shared/scale_bar.mjs';
import { formatNumber } from '../../lib/value_text.mjs';

const nameOf = (label) => (label ? nameText(label.text ?? label.id) : 'unknown');
const MOST_PX = 560;
const LABEL_PX = 11;  // rows lower than this have no label of their own

export class Matrix extends CanvasView {
  /** @param {{pointed: (hit: ?Object) => void}} handlers */
  constructor(element, handlers) {
    super(element, { label: 'One frame in full', className: 'matrix' });
    Object.assign(this, { handlers, frame: null, highlighted: null, legend: make('div', { class: 'map-legend' }) });
    element.append(this.legend);
  }

  /** @param {?import('../shared/frame.mjs').Frame} frame @param {?number} peak of a shared scale */
  show(frame, peak = null) {
    this.frame = frame;
    if (frame) {
      this.peak = peak ?? peakOf(frame.values);
      this.hasSign = !isShare(frame.what) || frame.less !== undefined;
      this.codes = codesOf(frame.values, this.hasSign, this.peak);
      this.canvas.setAttribute('aria-label', `${frame.what} of ${frameText(frame)} in step ${frame.step}: ${frame.rows} x ${frame.columns}. Arrow keys move.`);
    }
    this.legend.hidden = !frame;
    this.scaleKey = null;
    this.redraw();
  }

  layout(width) {
    if (!this.frame) return 0;
    const { rows, columns, names } = this.frame;
    const left = names.length ? 84 : 46;
    const w = Math.max(1, width - left - 8);
    const isSquare = this.frame.what === 'attention';
    const h = Math.min(MOST_PX, isSquare ? w * rows / columns : Math.max(90, Math.min(rows * 14, 260)));
    this.plot = { x: left, y: 6, w: isSquare ? Math.min(w, h * columns / rows) : w, h };
    return Math.round(h + (names.length && isSquare ? 70 : 42));
  }

  paint(context, theme) {
    const { frame, plot } = this;
    const canvas = document.createElement('canvas');
    Object.assign(canvas, { width: frame.columns, height: frame.rows });
    const small = canvas.getContext('2d', { willReadFrequently: true });
    const image = small.createImageData(frame.columns, frame.rows);
    const table = colourTable(theme);
    this.#scale(table, theme.less);
    paint(this.codes, table, image.data);
    small.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(canvas, plot.x, plot.y, plot.w, plot.h);
    this.#axes(context, theme);
    const cell = this.hovered ?? this.highlighted;
    if (cell && cell.row < frame.rows && cell.column < frame.columns) this.#highlight(context, theme, cell);
  }

  #scale(table, key) {
    if (this.scaleKey === key) return;
    this.scaleKey = key;  // of this frame, in this theme
    const { hasSign, peak } = this;
    const ticks = (hasSign ? [-1, -0.5, 0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1])
      .map((share) => ({ at: hasSign ? (share + 1) / 2 : share, text: formatNumber(Number((share * peak).toPrecision(2))) }));
    const code = (at) => codesOf([hasSign ? 2 * at - 1 : at], hasSign, 1)[0];
    this.legend.replaceChildren(scaleBar(`Colour scale, ${ticks[0].text} to ${ticks[4].text}`, table, code, ticks));
  }

  /** Dim everything but the row and column of a cell. */
  #highlight(context, theme, { row, column }) {
    const { frame, plot } = this;
    const [w, h] = [plot.w / frame.columns, plot.h / frame.rows];
    const [x, y] = [plot.x + column * w, plot.y + row * h];
    context.fillStyle = theme.panel;
    context.globalAlpha = 0.55;
    for (const [left, right] of [[plot.x, x], [x + w, plot.x + plot.w]]) {
      for (const [top, bottom] of [[plot.y, y], [y + h, plot.y + plot.h]]) context.fillRect(left, top, right - left, bottom - top);
    }
    context.globalAlpha = 1;
    context.strokeStyle = theme.text;
    context.strokeRect(x - 0.5, y - 0.5, Math.max(2, w) + 1, Math.max(2, h) + 1);
  }

  #axes(context, theme) {
    const { frame, plot } = this;
    context.fillStyle = theme.quiet;
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    const rowPx = plot.h / frame.rows;
    for (const row of niceTicks(0, frame.rows - 1, rowPx >= LABEL_PX ? frame.rows : plot.h / 24)) {
      const token = tokenOf(frame, row);
      const text = frame.names[token] === undefined ? String(token) : `${token} ${axisText(frame.names[token])}`;
      context.fillText(text, plot.x - 5, plot.y + (row + 0.5) * rowPx, plot.x - 18);
    }
    const columnPx = plot.w / frame.columns;
    const isTokens = this.hasTokenColumns() && columnPx >= LABEL_PX;
    for (const column of niceTicks(0, frame.columns - 1, isTokens ? frame.columns : plot.w / 50)) {
      context.save();
      context.translate(plot.x + (column + 0.5) * columnPx, plot.y + plot.h + 6);
      if (isTokens) context.rotate(-Math.PI / 4);
      context.textAlign = isTokens ? 'right' : 'center';
      context.fillText(isTokens ? axisText(frame.names[column]) : String(column), 0, 4, 60);
      context.restore();
    }
    context.textAlign = 'center';
    context.fillText(frame.what === 'attention' ? 'key (attended to)' : 'feature', plot.x + plot.w / 2, plot.y + plot.h + (isTokens ? 58 : 26));
    context.save();
    context.translate(8, plot.y + plot.h / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(frame.what === 'attention' ? 'query' : 'row', 0, 0);
    context.restore();
  }

  /** Whether each column is a token with a name; columns of thumbnails are means of several. */
  hasTokenColumns() {
    const { what, names, columns } = this.frame;
    return what === 'attention' && names.length === columns;
  }

  hitAt({ x, y }) {
    const { frame, plot } = this;
    if (!frame || !plot) return null;
    const [across, down] = [(x - plot.x) / plot.w, (y - plot.y) / plot.h];
    if (!(across >= 0 && across < 1 && down >= 0 && down < 1)) return null;
    return { row: Math.floor(down * frame.rows), column: Math.floor(across * frame.columns) };
  }

  lines({ row, column }) {
    const { frame } = this;
    const value = frame.values[row * frame.columns + column];
    const from = tokenText(frame, tokenOf(frame, row));
    const what = frame.less === undefined ? '' : ` more than in ${frame.less}`;
    const title = frame.what === 'attention' ? `query ${from} → key ${this.hasTokenColumns() ? tokenText(frame, column) : column}`
      : frame.what === 'probabilities' ? `after ${from}, most probable ${column + 1}: ${nameOf(frame.labels[row * frame.columns + column])}`
        : `row ${from}, feature ${column}`;
    return [title, `${formatNumber(value)}${what}`];
  }

  moved(hit, key) {
    const { frame } = this;
    if (!frame) return null;
    if (!hit) return { row: 0, column: 0 };
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key];
    return {
      row: Math.min(frame.rows - 1, Math.max(0, hit.row + down)), column: Math.min(frame.columns - 1, Math.max(0, hit.column + right)),
    };
  }

  pointOf({ row, column }) {
    const { frame, plot } = this;
    return { x: plot.x + plot.w * column / frame.columns, y: plot.y + plot.h * row / frame.rows };
  }

  pointed(hit) {
    this.handlers.pointed(hit);
  }
}
