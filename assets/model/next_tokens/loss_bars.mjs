/** The loss of each token of a sequence as bars, in the order of the text. */
import { CanvasView } from '../../lib/canvas/canvas_view.mjs';
import { roundTicks } from '../../lib/canvas/ticks.mjs';
import { axisText, nameText } from '../shared/frame.mjs';
import { formatNumber } from '../../lib/value_text.mjs';

const PLOT_PX = 120;
const LEFT = 46;
const LABEL_PX = 11;  // narrower bars have no name
const NAMES_PX = 64;

export class LossBars extends CanvasView {
  /** @param {{chosen: (token: number) => void}} handlers */
  constructor(element, handlers) {
    super(element, { label: 'Loss of each token', className: 'loss-bars' });
    Object.assign(this, { handlers, rows: [], names: [], token: null });
  }

  /** @param {import('./tokens.mjs').Next[]} rows @param {(string|number)[]} names @param {?number} token chosen */
  show(rows, names, token) {
    Object.assign(this, { rows, names, token });
    this.peak = Math.max(1e-9, ...rows.map(({ loss }) => (Number.isFinite(loss) ? loss : 0)));
    this.canvas.setAttribute('aria-label', `Loss of the next token after each of ${rows.length} tokens. Left and right go through them, Enter chooses one.`);
    this.redraw();
  }

  layout(width) {
    if (!this.rows.some(({ loss }) => loss !== null)) return 0;
    this.plot = { x: LEFT, y: 8, w: Math.max(1, width - LEFT - 12), h: PLOT_PX };
    return PLOT_PX + NAMES_PX + 24;
  }

  paint(context, theme) {
    const { rows, plot, peak } = this;
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    for (const value of roundTicks(0, peak, 3)) {
      const y = plot.y + plot.h * (1 - value / peak);
      context.fillStyle = theme.line;
      context.fillRect(plot.x, Math.round(y), plot.w, 1);
      context.fillStyle = theme.quiet;
      context.fillText(formatNumber(value), plot.x - 6, y);
    }
    const each = plot.w / rows.length;
    rows.forEach(({ token, loss }, index) => {
      const isChosen = token === this.token || this.hovered?.index === index;
      context.fillStyle = isChosen ? theme.text : theme.link;
      const h = plot.h * Math.min(1, (loss ?? 0) / peak);
      context.fillRect(plot.x + index * each, plot.y + plot.h - h, Math.max(1, each - (each > 3 ? 1 : 0)), h);
    });
    this.#names(context, theme, each);
    context.fillStyle = theme.quiet;
    context.textAlign = 'center';
    context.fillText('after this token', plot.x + plot.w / 2, plot.y + plot.h + NAMES_PX + 8);
  }

  #names(context, theme, each) {
    const { rows, plot } = this;
    const every = Math.ceil(LABEL_PX / each);
    rows.forEach(({ token }, index) => {
      if (index % every) return;
      context.save();
      context.translate(plot.x + (index + 0.5) * each, plot.y + plot.h + 6);
      context.rotate(-Math.PI / 4);
      context.textAlign = 'right';
      context.fillStyle = token === this.token ? theme.text : theme.quiet;
      const name = this.names[token];
      context.fillText(name === undefined ? String(token) : axisText(name), 0, 4, 70);
      context.restore();
    });
  }

  hitAt({ x }) {
    const { rows, plot } = this;
    const index = plot ? Math.floor((x - plot.x) / plot.w * rows.length) : -1;
    return index >= 0 && index < rows.length ? { index } : null;
  }

  lines({ index }) {
    const { token, loss, truth } = this.rows[index];
    const name = this.names[token];
    const next = truth ? `next is ${nameText(truth.text ?? truth.id)}` : 'the next is not known';
    return [`token ${token}${name === undefined ? '' : ` ${nameText(name)}`}`, next, ...(loss === null ? [] : [`loss ${formatNumber(loss)}, p ${formatNumber(Math.exp(-loss))}`])];
  }

  moved(hit, key) {
    if (!hit) return { index: Math.max(0, this.rows.findIndex(({ token }) => token === this.token)) };
    return { index: Math.min(this.rows.length - 1, Math.max(0, hit.index + (key === 'ArrowRight' || key === 'ArrowDown' ? 1 : -1))) };
  }

  pointOf({ index }) {
    const { plot } = this;
    return { x: plot.x + (index + 0.5) * plot.w / this.rows.length, y: plot.y };
  }

  choose({ index }) {
    this.handlers.chosen(this.rows[index].token);
  }
}
