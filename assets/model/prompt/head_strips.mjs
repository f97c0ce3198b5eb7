/** Attention of one token: a strip for each head over the tokens before it. */
import { CanvasView } from '../../lib/canvas/canvas_view.mjs';
import { colourTable, paint } from '../../lib/canvas/colour.mjs';
import { niceTicks } from '../../lib/canvas/ticks.mjs';
import { codesOf, peakOf } from '../shared/frame_codes.mjs';
import { percent } from './prompt_text.mjs';

const LEFT = 52;
const MOST_PX = 420;
const GAP_PX = 18;  // from one label of an axis to the next

export class HeadStrips extends CanvasView {
  /** @param {{chosen: (head: number) => void}} handlers */
  constructor(element, handlers) {
    super(element, { label: 'Attention of each head', className: 'head-strips' });
    Object.assign(this, { handlers, heads: [], columns: 0, values: new Float32Array(), texts: [], chosen: null });
  }

  /** @param {?{heads: number[], columns: number, values: Float32Array}} attention @param {string[]} texts of the tokens @param {?number} chosen head */
  show(attention, texts, chosen) {
    Object.assign(this, attention ?? { heads: [], columns: 0, values: new Float32Array() }, { texts, chosen });
    this.codes = codesOf(this.values, false, peakOf(this.values));
    this.canvas.setAttribute('aria-label', `Attention of ${this.heads.length} heads to ${this.columns} tokens. Arrow keys move, Enter chooses a head.`);
    this.redraw();
  }

  layout(width) {
    if (!this.heads.length) return 0;
    const h = Math.min(MOST_PX, this.heads.length * Math.max(6, Math.min(18, MOST_PX / this.heads.length)));
    this.plot = { x: LEFT, y: 4, w: Math.max(1, width - LEFT - 8), h };
    return Math.round(h + 34);
  }

  paint(context, theme) {
    const { plot, heads, columns } = this;
    const canvas = document.createElement('canvas');
    Object.assign(canvas, { width: columns, height: heads.length });
    const small = canvas.getContext('2d', { willReadFrequently: true });
    const image = small.createImageData(columns, heads.length);
    paint(this.codes, colourTable(theme), image.data);
    small.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(canvas, plot.x, plot.y, plot.w, plot.h);
    const [w, h] = [plot.w / columns, plot.h / heads.length];
    context.fillStyle = theme.quiet;
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    for (const row of niceTicks(0, heads.length - 1, Math.min(heads.length, plot.h / GAP_PX))) context.fillText(`head ${heads[row]}`, plot.x - 6, plot.y + (row + 0.5) * h);
    context.textAlign = 'center';
    for (const column of niceTicks(0, columns - 1, Math.min(columns, plot.w / 48))) context.fillText(String(column), plot.x + (column + 0.5) * w, plot.y + plot.h + 10);
    context.fillText('token attended to', plot.x + plot.w / 2, plot.y + plot.h + 25);
    this.#frame(context, theme, heads.indexOf(this.chosen), { w, h });
    if (this.hovered) context.strokeRect(plot.x + this.hovered.column * w, plot.y + this.hovered.row * h, Math.max(2, w), Math.max(2, h));
  }

  #frame(context, theme, row, { h }) {
    context.strokeStyle = theme.link;
    if (row >= 0) context.strokeRect(this.plot.x - 0.5, this.plot.y + row * h + 0.5, this.plot.w + 1, Math.max(2, h - 1));
    context.strokeStyle = theme.text;
  }

  hitAt({ x, y }) {
    const { plot } = this;
    if (!plot || !this.heads.length) return null;
    const [across, down] = [(x - plot.x) / plot.w, (y - plot.y) / plot.h];
    if (!(across >= 0 && across < 1 && down >= 0 && down < 1)) return null;
    return { row: Math.floor(down * this.heads.length), column: Math.floor(across * this.columns) };
  }

  lines({ row, column }) {
    return [`head ${this.heads[row]} → token ${column} ${JSON.stringify(this.texts[column] ?? '')}`, percent(this.values[row * this.columns + column])];
  }

  moved(hit, key) {
    if (!this.heads.length) return null;
    if (!hit) return { row: 0, column: 0 };
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key];
    return {
      row: Math.min(this.heads.length - 1, Math.max(0, hit.row + down)), column: Math.min(this.columns - 1, Math.max(0, hit.column + right)),
    };
  }

  pointOf({ row, column }) {
    const { plot } = this;
    return { x: plot.x + plot.w * column / this.columns, y: plot.y + plot.h * row / this.heads.length };
  }

  choose({ row }) {
    this.handlers.chosen(this.heads[row]);
  }
}
