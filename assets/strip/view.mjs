/**
 * The step-time strip on top of every page of a run. Dragging selects steps for all views, double-click
 * or Escape clears the selection, arrow keys move it. A hidden table has the same content. Below: which
 * steps the page shows.
 */
import { makeFetcher } from '../lib/fetcher.mjs';
import { draw } from './draw.mjs';
import { axisOf, brush, extent, marksNear, moved, pointAt, stepAt } from './geometry.mjs';
import { makeScopeLine } from './scope_line.mjs';
import { paragraph, pointSentences, shownMarks, stripLabel } from './messages.mjs';

const CLICK_PX = 4;
const TABLE_ROWS = 40;
const SIDE = 8;
const REFETCH_MS = 500;

export function mount(element, app) {
  const strip = new StripView(element, app);
  strip.fetcher.now();
  return strip;
}

class StripView {
  constructor(element, app) {
    Object.assign(this, { element, app, points: null, meta: null, marks: [], dragged: null, hovered: null });
    this.stop = new AbortController();
    this.fetcher = makeFetcher((signal) => this.#load(signal), REFETCH_MS);
    this.#build();
    const { signal } = this.stop;
    app.addEventListener('run', ({ detail }) => { if (detail.run === app.view.run) this.fetcher.news(); }, { signal });
    app.addEventListener('view', () => this.#viewChanged(), { signal });
    app.addEventListener('scope', () => { this.line.update(this.marks); this.redraw(); }, { signal });
    app.addEventListener('link', ({ detail }) => this.#completeLink(detail.patch), { signal });
    this.sizes = new ResizeObserver(() => this.redraw());
    this.sizes.observe(this.canvas);
    this.themes = new MutationObserver(() => this.redraw());
    this.themes.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
    this.#listen(signal);
  }

  #build() {
    const canvas = document.createElement('canvas');
    canvas.tabIndex = 0;
    canvas.setAttribute('role', 'img');
    this.tip = document.createElement('div');
    this.tip.className = 'tip';
    this.tip.hidden = true;
    this.table = document.createElement('table');
    const hidden = document.createElement('div');  // a table itself cannot be that small
    hidden.className = 'visually-hidden';
    this.announcement = document.createElement('p');
    this.announcement.setAttribute('aria-live', 'polite');
    hidden.append(this.announcement, this.table);
    this.canvas = canvas;
    this.attempt = this.app.view.attempt;
    this.line = makeScopeLine(this.app);
    this.element.replaceChildren(canvas, this.line.element, this.tip, hidden);
  }

  #listen(signal) {
    const on = (name, act) => this.canvas.addEventListener(name, act, { signal });
    on('pointerdown', (event) => this.#down(event));
    on('pointermove', (event) => this.#move(event));
    on('pointerup', (event) => this.#up(event));
    on('pointercancel', () => { this.dragged = null; this.redraw(); });
    on('pointerleave', () => { this.hovered = null; this.tip.hidden = true; this.redraw(); });
    on('dblclick', () => this.#choose(null));
    on('keydown', (event) => this.#key(event));
  }

  /** Load the run's steps; the first time without waiting for the findings of a large job. */
  async #load(signal) {
    try {
      const url = this.app.api('strip', { attempt: this.app.view.attempt, wait: this.points ? null : 'no' });
      const { arrays, meta } = await this.app.arrays(url, signal);
      if (signal.aborted) return;
      Object.assign(this, { points: arrays, meta: { ...meta }, marks: meta.marks, range: extent(arrays), axis: axisOf(arrays) });
      this.#chooseMarks();
      this.problem = null;
      this.element.classList.remove('failed');
      this.redraw();
      if (!meta.is_whole) this.fetcher.soon();
    } catch (error) {
      if (error.name === 'AbortError' || signal.aborted) return;
      this.element.classList.add('failed');
      this.canvas.setAttribute('aria-label', error.message);
      this.problem = error.message;
      this.redraw();
    }
  }

  #viewChanged() {
    if (this.app.view.attempt !== this.attempt) {
      this.attempt = this.app.view.attempt;
      this.fetcher.now();
    } else {
      this.#chooseMarks();
      this.redraw();
    }
  }

  /** Faults that somebody planted are hidden unless the view asks for them: they are the solution. */
  #chooseMarks() {
    this.line.update(this.marks);
    if (!this.meta || this.meta.truth === this.app.view.truth) return;
    this.meta = { ...this.meta, truth: this.app.view.truth, marks: shownMarks(this.marks, this.app.view.truth) };
    this.#describe();
  }

  /** Add the steps that pages show by default to a link: they change while the run grows. */
  #completeLink(patch) {
    const { view } = this.app;
    const isGrowing = this.app.pageControls?.live.state === 'running';
    if (!isGrowing || view.steps !== null || view.t !== null || !this.range) return;
    patch.steps ??= [Math.max(this.range[1] - 19, this.range[0]), this.range[1]];
  }

  redraw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => draw(this.canvas, {
      points: this.points, meta: this.meta, axis: this.axis, side: SIDE,
      steps: this.dragged ? brush(this.dragged.from, this.dragged.to) : this.app.view.steps,
      viewport: this.app.scope?.steps ?? null, finding: this.app.view.finding, hovered: this.hovered, problem: this.problem,
    }));
  }

  #stepOf(event) {
    const box = this.canvas.getBoundingClientRect();
    return this.axis.step(stepAt(this.axis.range, box.width - 2 * SIDE, event.clientX - box.left - SIDE));
  }

  #down(event) {
    if (!this.range || event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    const step = this.#stepOf(event);
    this.dragged = { x: event.clientX, from: step, to: step, isDrag: false };
  }

  #move(event) {
    if (!this.range) return;
    this.hovered = this.#stepOf(event);
    if (this.dragged) {
      this.dragged.to = this.hovered;
      this.dragged.isDrag ||= Math.abs(event.clientX - this.dragged.x) >= CLICK_PX;
    }
    this.#showTip(event);
    this.redraw();
  }

  #up() {
    const { dragged } = this;
    this.dragged = null;
    if (dragged?.isDrag) this.#choose(brush(dragged.from, dragged.to));
    else this.redraw();
  }

  #choose(steps) {
    this.app.set({ steps, t: null }, { push: true });
    this.redraw();
  }

  #key(event) {
    if (!this.range || event.ctrlKey || event.metaKey || event.altKey) return;
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) {
      const { axis, app: { view } } = this;
      const places = moved(view.steps && view.steps.map(axis.place), axis.range, by, event.shiftKey);
      const steps = places.map(axis.step);
      this.app.set({ steps, t: null });
      this.announcement.textContent = `${steps[0] === steps[1] ? `Step ${steps[0]}` : `Steps ${steps[0]} to ${steps[1]}`} chosen`;
      this.redraw();
    } else if (event.key === 'Escape' && this.app.view.steps !== null) {
      this.#choose(null);
      this.announcement.textContent = 'All steps';
    } else return;
    event.preventDefault();
  }

  #lines(step) {
    const index = pointAt(this.points, step);
    if (index < 0) return [];
    const { range } = this.axis;
    const reach = Math.max((range[1] - range[0] + 1) / 200, 0);
    return pointSentences(this.points, index, marksNear(this.meta.marks, step, Math.floor(reach)), this.meta.stretches);
  }

  #showTip(event) {
    const lines = this.#lines(this.hovered);
    this.tip.hidden = !lines.length;
    if (!lines.length) return;
    this.tip.replaceChildren(...lines.map((line) => {
      const row = document.createElement('div');
      row.textContent = line;
      return row;
    }));
    const box = this.element.getBoundingClientRect();
    const room = box.width - this.tip.offsetWidth - 4;
    this.tip.style.left = `${Math.max(Math.min(event.clientX - box.left + 12, room), 4)}px`;
  }

  /** Label of the canvas, and the hidden table of the slowest steps and those with marks. */
  #describe() {
    const { points, meta, range } = this;
    if (!range) {
      this.canvas.setAttribute('aria-label', 'Step times: no step yet.');
      this.table.replaceChildren();
      return;
    }
    this.canvas.setAttribute('aria-label', `${stripLabel(range, meta.median_ms)} `
      + 'Arrow keys move the selected steps, shift + arrow keys extend them, Escape clears the selection.');
    const marked = new Set([...meta.marks.map((mark) => mark.step), ...meta.stretches.map((stretch) => stretch.first)]
      .map((step) => pointAt(points, step)));
    const order = Array.from(points.ms.keys ? points.ms.keys() : [])
      .sort((a, b) => (marked.has(b) - marked.has(a)) || (points.ms[b] || 0) - (points.ms[a] || 0))
      .slice(0, TABLE_ROWS).sort((a, b) => a - b);
    const rows = order.map((index) => {
      const row = document.createElement('tr');
      const marks = meta.marks.filter((mark) => pointAt(points, mark.step) === index);
      const cell = document.createElement('td');
      const beginning = meta.stretches.filter((stretch) => pointAt(points, stretch.first) === index);
      cell.textContent = paragraph(pointSentences(points, index, marks, beginning));  // a stretch is named once, at its first step
      row.append(cell);
      return row;
    });
    const caption = document.createElement('caption');
    caption.textContent = 'Slowest steps and steps with marks';
    this.table.replaceChildren(caption, ...rows);
  }

  destroy() {
    this.stop.abort();
    this.fetcher.stop();
    this.sizes.disconnect();
    this.themes.disconnect();
    cancelAnimationFrame(this.frame);
  }
}
