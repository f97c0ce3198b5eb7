/**
 * A canvas that is drawn anew with its data, size and theme, that can be pointed at by mouse, finger
 * and arrow keys, and that says in a tip what is pointed at. What is drawn is the subclass's.
 */
import { make } from '../dom.mjs';
import { onTheme, readTheme } from './canvas_theme.mjs';
import { isSoftwareGl } from './software_gl.mjs';
import { placeTip, pointOn } from './tooltip.mjs';

const ARROWS = ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown'];

export class CanvasView {
  /** @param {Element} element gets the canvas @param {{label: string, className?: string}} options */
  constructor(element, { label, className = '' }) {
    this.at = null;  // what is pointed at
    this.canvas = make('canvas', { tabindex: '0', role: 'img', 'aria-label': label });
    this.tip = make('div', { class: 'map-tip', hidden: '' });
    this.said = make('div', { class: 'visually-hidden', role: 'status' });
    this.stage = make('div', { class: `canvas-stage ${className}` }, [this.canvas, this.tip, this.said]);
    element.append(this.stage);
    this.context = this.canvas.getContext('2d', { willReadFrequently: isSoftwareGl() });
    this.#listen();
    this.endTheme = onTheme(() => this.redraw());
    this.resizing = new ResizeObserver(() => this.redraw());
    this.resizing.observe(this.stage);
  }

  destroy() {
    cancelAnimationFrame(this.pending);
    this.resizing.disconnect();
    this.endTheme();
  }

  /** Height for a width, CSS pixels; 0: there is nothing to draw. Called before every `paint`. */
  layout() { return 0; }

  /** Draw; 1 is a CSS pixel. @param {CanvasRenderingContext2D} context @param {Object} theme */
  paint() {}

  /** What lies at a point, null: nothing. @returns {?Object} */
  hitAt() { return null; }

  /** Lines of the tip, the first is its title. @returns {string[]} */
  lines() { return []; }

  /** What an arrow key leads to. @returns {?Object} */
  moved(at) { return at; }

  /** Where the tip of something stands that was reached by keys. */
  pointOf() { return { x: 0, y: 0 }; }

  /** Somebody clicked on it, or pressed Enter. */
  choose() {}

  /** Something else is pointed at; null: nothing. */
  pointed() {}

  /** Draw on the next frame. */
  redraw() {
    cancelAnimationFrame(this.pending);
    this.pending = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    const width = this.stage.clientWidth;
    if (!width) return;
    const height = this.layout(width);
    this.canvas.hidden = !height;
    if (!height) return;
    const scale = window.devicePixelRatio || 1;
    const [wide, high] = [width, height].map((length) => Math.round(length * scale));
    if (this.canvas.width !== wide || this.canvas.height !== high) Object.assign(this.canvas, { width: wide, height: high });
    this.canvas.style.height = `${height}px`;
    this.height = height;
    const theme = readTheme();
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.context.clearRect(0, 0, width, height);
    this.context.font = `11px ${theme.font}`;
    this.context.lineWidth = 1;
    this.paint(this.context, theme);
  }

  #listen() {
    const { canvas } = this;
    const at = (event) => pointOn(canvas, event);
    canvas.addEventListener('pointermove', (event) => this.#point(this.hitAt(at(event)), at(event)));
    canvas.addEventListener('pointerleave', () => this.#point(null));
    canvas.addEventListener('blur', () => this.#point(null));
    canvas.addEventListener('click', (event) => {
      this.#point(this.hitAt(at(event)), at(event));
      if (this.at) this.choose(this.at, event);
    });
    canvas.addEventListener('keydown', (event) => this.#key(event));
  }

  #key(event) {
    if (ARROWS.includes(event.key)) {
      const to = this.moved(this.at, event.key);
      this.#point(to, to && this.pointOf(to), true);
    } else if (event.key === 'Enter' && this.at) this.choose(this.at, event);
    else if (event.key === 'Escape' && this.at) this.#point(null);
    else return;
    event.preventDefault();
  }

  #point(hit, point = null, byKey = false) {
    this.at = hit;
    this.canvas.style.cursor = hit ? 'pointer' : 'default';
    this.tip.hidden = !hit;
    if (hit) {
      const [first, ...rest] = this.lines(hit);
      this.tip.replaceChildren(make('b', {}, first), ...rest.map((text) => make('div', {}, text)));
      placeTip(this.tip, point, this.stage.clientWidth, this.height);
      if (byKey) this.said.textContent = [first, ...rest].join(', ');
    }
    this.pointed(hit);
    this.redraw();
  }
}
