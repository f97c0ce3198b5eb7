/** Hidden states of one layer as points, and the path of one token through all layers. */
import { CanvasView } from '../../lib/canvas/canvas_view.mjs';
import { colourTable, cssColour, STRONGEST } from '../../lib/canvas/colour.mjs';
import { roundTicks } from '../../lib/canvas/ticks.mjs';
import { make } from '../../lib/dom.mjs';
import { nameText } from '../shared/frame.mjs';
import { scaleBar } from '../shared/scale_bar.mjs';
import { formatNumber } from '../../lib/value_text.mjs';
import { extentOf, nearest, pathOf, pointAt } from './points.mjs';

const MOST_PX = 460;
const LEFT = 62;
const BELOW = 40;
const NEAR_PX = 14;
const DOT_PX = 3.5;
const LABEL_PX = 16;  // layer numbers closer to each other are left out

const codeOf = (share) => 2 * Math.max(1, Math.round(share * STRONGEST));

export class Scatter extends CanvasView {
  /** @param {{chosen: (token: number) => void, layer: (layer: number) => void}} handlers */
  constructor(element, handlers) {
    super(element, { label: 'Hidden states in two dimensions', className: 'scatter' });
    Object.assign(this, { handlers, points: null, row: 0, chosen: null, names: [], legend: make('div', { class: 'map-legend' }) });
    element.append(this.legend);
  }

  /**
   * @param {?import('./points.mjs').Points} points @param {number} layer that is shown
   * @param {?number} token whose path stays @param {(string|number)[]} names of tokens by position
   */
  show(points, layer, token, names = []) {
    const index = points ? points.tokens.indexOf(token) : -1;
    Object.assign(this, { points, names, row: Math.max(0, points?.layers.indexOf(layer) ?? 0), chosen: index < 0 ? null : index, scaleKey: null });
    if (points) {
      this.extent = extentOf(points);
      this.canvas.setAttribute('aria-label', `Hidden states of ${points.tokens.length} tokens after layer ${points.layers[this.row]} in step ${points.step}. `
        + 'Left and right go through the tokens, up and down through the layers, Enter keeps a token\'s path.');
    }
    this.legend.hidden = !points;
    this.redraw();
  }

  layout(width) {
    if (!this.points) return 0;
    const height = Math.min(MOST_PX, Math.max(260, width * 0.75));
    this.plot = { x: LEFT, y: 8, w: Math.max(1, width - LEFT - 12), h: height - BELOW - 8 };
    return Math.round(height);
  }

  #positionOf([x, y]) {
    const { plot, extent: [[left, right], [low, high]] } = this;
    return { x: plot.x + plot.w * (x - left) / (right - left), y: plot.y + plot.h * (high - y) / (high - low) };
  }

  paint(context, theme) {
    const table = colourTable(theme);
    this.#axes(context, theme);
    this.#scale(table, theme.less);
    const { tokens } = this.points;
    const last = Math.max(1, tokens.length - 1);
    const isPath = this.hovered !== null || this.chosen !== null;
    context.globalAlpha = isPath ? 0.6 : 0.9;
    tokens.forEach((_, index) => {
      const point = pointAt(this.points, this.row, index);
      if (point) this.#dot(context, this.#positionOf(point), cssColour(table, codeOf(index / last)), DOT_PX);
    });
    context.globalAlpha = 1;
    if (this.chosen !== null) this.#path(context, theme, table, this.chosen, theme.text);
    if (this.hovered && this.hovered.index !== this.chosen) this.#path(context, theme, table, this.hovered.index, theme.link);
  }

  #dot(context, { x, y }, colour, radius) {
    context.fillStyle = colour;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fill();
  }

  /** Path of a token: a line through the numbered layers, the shown layer highlighted. */
  #path(context, theme, table, index, colour) {
    const path = pathOf(this.points, index).map(({ layer, row, point }) => ({ layer, row, ...this.#positionOf(point) }));
    context.strokeStyle = colour;
    context.lineWidth = 1.5;
    context.beginPath();
    path.forEach(({ x, y }, i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.stroke();
    context.lineWidth = 1;
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    let labelled = null;
    for (const { layer, row, x, y } of path) {
      const isShown = row === this.row;
      this.#dot(context, { x, y }, isShown ? cssColour(table, codeOf(index / Math.max(1, this.points.tokens.length - 1))) : colour, isShown ? 5 : 2.5);
      if (isShown) {
        context.beginPath();
        context.arc(x, y, 6, 0, 2 * Math.PI);
        context.stroke();
      }
      if (labelled && Math.hypot(x - labelled.x, y - labelled.y) < LABEL_PX && !isShown) continue;
      context.fillStyle = theme.text;
      context.fillText(String(layer), x + 8, y);
      labelled = { x, y };
    }
  }

  #axes(context, theme) {
    const { plot, extent: [across, up], points } = this;
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    for (const value of roundTicks(...up, 5)) {
      const y = this.#positionOf([0, value]).y;
      context.fillStyle = theme.line;
      context.fillRect(plot.x, Math.round(y), plot.w, 1);
      context.fillStyle = theme.quiet;
      context.fillText(formatNumber(value), plot.x - 6, y, LEFT - 24);
    }
    context.textAlign = 'center';
    for (const value of roundTicks(...across, Math.max(2, plot.w / 90))) {
      const x = this.#positionOf([value, 0]).x;
      context.fillStyle = theme.line;
      context.fillRect(Math.round(x), plot.y, 1, plot.h);
      context.fillStyle = theme.quiet;
      context.fillText(formatNumber(value), x, plot.y + plot.h + 11);
    }
    const name = points.axes.kind === 'random' ? 'random direction' : 'component';
    context.fillText(`${name} 1`, plot.x + plot.w / 2, plot.y + plot.h + 28);
    context.save();
    context.translate(8, plot.y + plot.h / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(`${name} 2`, 0, 0);
    context.restore();
  }

  #scale(table, key) {
    if (this.scaleKey === key) return;
    this.scaleKey = key;
    const { tokens } = this.points;
    const ticks = [0, 0.5, 1].map((at) => ({ at, text: String(tokens[Math.round(at * (tokens.length - 1))]) }));
    this.legend.replaceChildren(make('span', { class: 'quiet' }, 'token'), scaleBar(`Colour scale: tokens ${ticks[0].text} to ${ticks[2].text}`, table, codeOf, ticks));
  }

  hitAt(target) {
    if (!this.points || !this.plot) return null;
    const index = nearest(this.points, this.row, (point) => this.#positionOf(point), target, NEAR_PX);
    return index === null ? null : { index };
  }

  lines({ index }) {
    const { points, row } = this;
    const token = points.tokens[index];
    const name = this.names[token];
    const [x, y] = pointAt(points, row, index) ?? [NaN, NaN];
    return [`token ${token}${name === undefined ? '' : ` ${nameText(name)}`}`, `layer ${points.layers[row]}: ${formatNumber(x)}, ${formatNumber(y)}`];
  }

  moved(hit, key) {
    const { points, row } = this;
    if (!points) return null;
    if (key === 'ArrowUp' || key === 'ArrowDown') {
      const layer = points.layers[row + (key === 'ArrowUp' ? 1 : -1)];
      if (layer !== undefined) this.handlers.layer(layer);
      return hit;
    }
    if (!hit) return { index: this.chosen ?? 0 };
    return { index: Math.min(points.tokens.length - 1, Math.max(0, hit.index + (key === 'ArrowRight' ? 1 : -1))) };
  }

  pointOf({ index }) {
    const point = pointAt(this.points, this.row, index);
    return point ? this.#positionOf(point) : { x: 0, y: 0 };
  }

  choose({ index }) {
    this.handlers.chosen(index === this.chosen ? null : this.points.tokens[index]);
  }
}
