/**
 * Base of views on a canvas: draws again when data, size or theme change, finds what is under the mouse,
 * a finger or the keyboard cursor, and describes it in a tooltip. Subclasses draw and describe.
 */
import { make } from '../dom.mjs';
import { onTheme, readTheme } from './canvas_theme.mjs';
import { isSoftwareGl } from './software_gl.mjs';
import { placeTip, pointOn } from './tooltip.mjs';

const ARROWS = ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown'];

export class CanvasView {
  /** @param {Element} element gets the canvas @param {{label: string, className?: string}} options */
  constructor(element, { label, className = '' }) {
    this.hovered = null;  // what the pointer or the arrow keys are on
    this.canvas = make('canvas', { tabindex: '0', role: 'img', 'aria-label': label });
    this.tip = make('div', { class: 'map-tip', hidden: '' });
    this.announcement = make('div', { class: 'visually-hidden', role: 'status' });
    this.stage = make('div', { class: `canvas-stage ${className}` }, [this.canvas, this.tip, this.announcement]);
    element.append(this.stage);
    this.context = this.canvas.getContext('2d', { willReadFrequently: isSoftwareGl() });
    this.#listen();
    this.stopTheme = onTheme(() => this.redraw());
    this.resizing = new ResizeObserver(() => this.redraw());
    this.resizing.observe(this.stage);
  }

  destroy() {
    cancelAnimationFrame(this.pending);
    this.resizing.disconnect();
    this.stopTheme();
  }

  /** Height for a width in CSS pixels; 0 if there is nothing to draw. Called before every `paint`. */
  layout() { return 0; }

  /** Draw; 1 is a CSS pixel. @param {CanvasRenderingContext2D} context @param {Object} theme */
  paint() {}

  /** What is at a point; null for nothing. @returns {?Object} */
  hitAt() { return null; }

  /** Lines of the tooltip, its title first. @returns {string[]} */
  lines() { return []; }

  /** What an arrow key leads to. @returns {?Object} */
  moved(hit) { return hit; }

  /** Where to show the tooltip of something reached by keys. */
  pointOf() { return { x: 0, y: 0 }; }

  /** Called when the user clicks on something or presses Enter. */
  choose() {}

  /** Called when the pointer moves to something else; null for nothing. */
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
    const pointOf = (event) => pointOn(canvas, event);
    canvas.addEventListener('pointermove', (event) => this.#point(this.hitAt(pointOf(event)), pointOf(event)));
    canvas.addEventListener('pointerleave', () => this.#point(null));
    canvas.addEventListener('blur', () => this.#point(null));
    canvas.addEventListener('click', (event) => {
      this.#point(this.hitAt(pointOf(event)), pointOf(event));
      if (this.hovered) this.choose(this.hovered, event);
    });
    canvas.addEventListener('keydown', (event) => this.#key(event));
  }

  #key(event) {
    if (ARROWS.includes(event.key)) {
      const target = this.moved(this.hovered, event.key);
      this.#point(target, target && this.pointOf(target), true);
    } else if (event.key === 'Enter' && this.hovered) this.choose(this.hovered, event);
    else if (event.key === 'Escape' && this.hovered) this.#point(null);
    else return;
    event.preventDefault();
  }

  #point(hit, point = null, byKey = false) {
    this.hovered = hit;
    this.canvas.style.cursor = hit ? 'pointer' : 'default';
    this.tip.hidden = !hit;
    if (hit) {
      const [first, ...rest] = this.lines(hit);
      this.tip.replaceChildren(make('b', {}, first), ...rest.map((text) => make('div', {}, text)));
      placeTip(this.tip, point, this.stage.clientWidth, this.height);
      if (byKey) this.announcement.textContent = [first, ...rest].join(', ');
    }
    this.pointed(hit);
    this.redraw();
  }
}
