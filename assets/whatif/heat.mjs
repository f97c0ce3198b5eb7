/** The map of the workers on a canvas, with its scale and a table of the worst. */
import { colourTable, cssColour } from '../lib/colour.mjs';
import { isSoftwareGl, make, onTheme, readTheme } from '../ranks/theme.mjs';
import { placeTip, pointOn } from '../ranks/tip.mjs';
import { blockAt, blockText, boxOf, cellMap, codeOfSlowdown, FULL, geometryOf, moved } from './cells.mjs';
import { rankLink } from './summary.mjs';
import { ratio } from './words.mjs';

const KEYS = ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown'];

export class WorkerMap {
  constructor(element, app) {
    Object.assign(this, { element, app, told: null, at: null });
    this.#build();
    this.context = this.canvas.getContext('2d', { willReadFrequently: isSoftwareGl() });
    this.ends = [onTheme(() => this.draw())];
    this.resizing = new ResizeObserver(() => this.draw());
    this.resizing.observe(this.stage);
  }

  destroy() {
    this.resizing.disconnect();
    this.ends.forEach((end) => end());
  }

  #build() {
    this.canvas = make('canvas', { tabindex: '0', role: 'img', 'aria-label': 'Slowdown by worker' });
    this.tip = make('div', { class: 'map-tip', hidden: '' });
    this.about = make('span', { class: 'quiet' });
    this.said = make('p', { class: 'map-note', role: 'status' });
    this.stage = make('div', { class: 'whatif-map' }, [this.canvas, this.tip]);
    this.scale = make('div', { class: 'map-legend' });
    this.worst = make('details', { class: 'worst-cells' });
    this.element.replaceChildren(
      make('header', {}, [make('h2', {}, 'Slowdown by worker'), this.about]),
      this.stage, this.scale, this.said, this.worst);
    this.canvas.addEventListener('pointermove', (event) => this.#point(pointOn(this.canvas, event)));
    this.canvas.addEventListener('pointerleave', () => this.#choose(null));
    this.canvas.addEventListener('click', (event) => {
      this.#point(pointOn(this.canvas, event));
      this.#open();
    });
    this.canvas.addEventListener('keydown', (event) => this.#key(event));
    this.canvas.addEventListener('blur', () => this.#choose(null));
  }

  /** @param {Object} told numbers of the server */
  show(told) {
    this.told = told;
    this.at = null;
    const { worst, workers } = told;
    this.about.textContent = told.members > 1
      ? 'S_w of the slowest rank of each stage and dp rank; click for its timeline'
      : 'S_w: the lesser of its stage\'s and its dp rank\'s; click for the timeline';
    this.canvas.setAttribute('aria-label', `Slowdown of ${workers} workers, ${told.S_w.length} stages x ${told.S_w[0].length} dp ranks; `
      + `worst rank ${worst[0].rank} with ${ratio(worst[0].value)} x. Arrow keys move, Enter opens the timeline.`);
    this.worst.replaceChildren(
      make('summary', {}, workers > worst.length ? `The ${worst.length} worst as a table` : 'As a table'),
      make('div', { class: 'scroll' }, make('table', {}, [
        make('thead', {}, make('tr', {}, ['rank', 'stage', 'dp rank', 'slowdown'].map((name) => make('th', { scope: 'col', class: 'number' }, name)))),
        make('tbody', {}, worst.map((cell) => make('tr', {}, [
          make('td', { class: 'number' }, rankLink(this.app, cell.rank)), ...[cell.stage, cell.dp, `${ratio(cell.value)} x`].map((text) => make('td', { class: 'number' }, String(text))),
        ]))),
      ])));
    this.draw();
  }

  draw() {
    const width = this.stage.clientWidth;
    if (!this.told || !width) return;
    this.geometry = geometryOf(width, this.told.S_w.length);
    this.map = cellMap(this.told.S_w, this.told.rank, this.geometry.plot.w);
    const ratioPx = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratioPx);
    this.canvas.height = Math.round(this.geometry.height * ratioPx);
    this.canvas.style.height = `${this.geometry.height}px`;
    this.context.setTransform(ratioPx, 0, 0, ratioPx, 0, 0);
    const theme = readTheme();
    const table = colourTable(theme);
    this.#cells(theme, table);
    this.#axes(theme);
    this.#showScale(table);
  }

  #cells(theme, table) {
    const { context, map, geometry } = this;
    context.font = `11px ${theme.font}`;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (const [number, block] of map.blocks.entries()) {
      const box = boxOf(map, geometry, block);
      const code = codeOfSlowdown(block.value);
      const gap = box.w > 12 ? 2 : box.w > 6 ? 1 : 0;
      context.fillStyle = cssColour(table, code);
      context.fillRect(box.x, box.y, box.w - gap, box.h - (box.h > 8 ? 2 : 0));
      if (box.w > 44 && box.h > 15) {
        context.fillStyle = inkOn(table, code);
        context.fillText(block.value.toFixed(2), box.x + (box.w - gap) / 2, box.y + box.h / 2 - 1);
      }
      if (number === this.at) {
        context.strokeStyle = theme.text;
        context.lineWidth = 2;
        context.strokeRect(box.x + 1, box.y + 1, Math.max(2, box.w - gap - 2), box.h - 4);
      }
    }
  }

  #axes(theme) {
    const { context, map, geometry: { plot } } = this;
    context.fillStyle = theme.quiet;
    context.textAlign = 'right';
    const every = Math.ceil(13 / (plot.h / map.stages));
    for (let stage = 0; stage < map.stages; stage += every) {
      context.fillText(`stage ${stage}`, plot.x - 6, plot.y + plot.h * (stage + 0.5) / map.stages - 1);
    }
    context.textAlign = 'center';
    context.textBaseline = 'top';
    const step = Math.max(1, Math.ceil(map.dps * 34 / plot.w));
    for (let dp = 0; dp < map.dps; dp += step) {
      context.fillText(String(dp), plot.x + plot.w * (dp + 0.5) / map.dps, plot.y + plot.h + 5);
    }
    context.fillText('dp rank', plot.x + plot.w / 2, plot.y + plot.h + 21);
  }

  #showScale(table) {
    const stops = Array.from({ length: 17 }, (_, i) => `${cssColour(table, codeOfSlowdown(1 + FULL * i / 16))} ${(100 * i / 16).toFixed(1)}%`);
    const bar = make('div', { class: 'scale-bar' });
    bar.style.background = `linear-gradient(to right, ${stops.join(', ')})`;
    const ticks = [0, 0.25, 0.5, 0.75, 1].map((at) => {
      const tick = make('span', {}, `${at === 0 ? '≤ ' : at === 1 ? '≥ ' : ''}${(1 + FULL * at).toFixed(at % 0.5 ? 3 : 2)}${at === 1 ? ' x' : ''}`);
      tick.style.left = `${100 * at}%`;
      return tick;
    });
    this.scale.replaceChildren(make('div', { class: 'scale', role: 'img', 'aria-label': 'Colour scale: grey up to 1.03, full colour from 1.5 x' }, [bar, make('div', { class: 'scale-ticks' }, ticks)]));
  }

  #choose(at, point = null) {
    this.tip.hidden = at === null || !point;
    if (!this.tip.hidden) {
      this.tip.textContent = blockText(this.map.blocks[at], this.told.members > 1);
      placeTip(this.tip, point, this.stage.clientWidth, this.geometry.height);
    }
    if (at === this.at) return;
    this.at = at;
    this.said.textContent = at === null ? '' : blockText(this.map.blocks[at], this.told.members > 1);
    this.draw();
  }

  #point(point) {
    if (!this.map) return;
    const block = blockAt(this.map, this.geometry, point);
    this.canvas.style.cursor = block ? 'pointer' : 'default';
    this.#choose(block ? this.map.blocks.indexOf(block) : null, point);
  }

  #key(event) {
    if (!this.map) return;
    if (KEYS.includes(event.key)) this.#choose(moved(this.map, this.at, event.key));
    else if (event.key === 'Enter') this.#open();
    else return;
    event.preventDefault();
  }

  #open() {
    if (this.at === null) return;
    this.app.open({ page: 'timeline', rank: this.map.blocks[this.at].rank, ranks: [] });
  }
}

/** Black or white, whichever reads better on a colour of the table. */
function inkOn(table, code) {
  const [r, g, b] = table.subarray(4 * code, 4 * code + 3);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? '#0B0D11' : '#FFFFFF';
}
