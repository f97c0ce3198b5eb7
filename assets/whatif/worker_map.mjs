/** The map of the workers on a canvas, with its scale and a table of the worst. */
import { CanvasView } from '../lib/canvas/canvas_view.mjs';
import { colourTable, cssColour, inkOn } from '../lib/canvas/colour.mjs';
import { make } from '../lib/dom.mjs';
import { ratio, symbolText } from './messages.mjs';
import { rankLink } from './summary.mjs';
import { blockAt, blockText, boxOf, cellMap, codeOfSlowdown, FULL, geometryOf, moved } from './worker_cells.mjs';

export class WorkerMap extends CanvasView {
  constructor(element, app) {
    const about = make('span', { class: 'quiet' });
    element.replaceChildren(make('header', {}, [make('h2', { title: symbolText('S_w') }, 'What-if slowdown by rank'), about]));
    super(element, { label: 'What-if slowdown by rank', className: 'whatif-map' });
    Object.assign(this, { app, about, result: null });
    this.scale = make('div', { class: 'map-legend' });
    this.worst = make('details', { class: 'worst-cells' });
    element.append(this.scale, this.worst);
  }

  /** @param {Object} result numbers of the server */
  show(result) {
    this.result = result;
    this.hovered = null;
    const { worst, workers } = result;
    const about = result.members > 1 ? 'the slowest rank of each stage and dp rank' : 'of its stage or its dp rank, whichever is less';
    this.about.textContent = this.app.computes ? `${about}; click for its timeline` : about;
    this.canvas.setAttribute('aria-label', `What-if slowdown of ${workers} ranks, ${result.S_w.length} stages x ${result.S_w[0].length} dp ranks; `
      + `worst rank ${worst[0].rank} with ${ratio(worst[0].value)} x. Arrow keys move${this.app.computes ? ', Enter opens the timeline' : ''}.`);
    this.worst.replaceChildren(
      make('summary', {}, workers > worst.length ? `The ${worst.length} worst as a table` : 'As a table'),
      make('div', { class: 'scroll' }, make('table', {}, [
        make('thead', {}, make('tr', {}, ['rank', 'stage', 'dp rank', 'slowdown'].map((name) => make('th', { scope: 'col', class: 'number' }, name)))),
        make('tbody', {}, worst.map((cell) => make('tr', {}, [
          make('td', { class: 'number' }, rankLink(this.app, cell.rank)), ...[cell.stage, cell.dp, `${ratio(cell.value)} x`].map((text) => make('td', { class: 'number' }, String(text))),
        ]))),
      ])));
    this.redraw();
  }

  layout(width) {
    if (!this.result) return 0;
    this.geometry = geometryOf(width, this.result.S_w.length);
    this.map = cellMap(this.result.S_w, this.result.rank, this.geometry.plot.w);
    return this.geometry.height;
  }

  paint(context, theme) {
    const table = colourTable(theme);
    this.#cells(theme, table);
    this.#axes(theme);
    const colours = `${theme.noise} ${theme.more}`;
    if (colours !== this.colours) this.#showScale(table);
    this.colours = colours;
  }

  #cells(theme, table) {
    const { context, map, geometry } = this;
    context.textAlign = 'center';
    context.textBaseline = 'middle';
    for (const [number, block] of map.blocks.entries()) {
      const box = boxOf(map, geometry, block);
      const code = codeOfSlowdown(block.value);
      const gap = box.w > 12 ? 2 : box.w > 6 ? 1 : 0;
      context.fillStyle = cssColour(table, code);
      context.fillRect(box.x, box.y, box.w - gap, box.h - (box.h > 8 ? 2 : 0));
      if (box.w > 44 && box.h > 15) {
        context.fillStyle = inkOn([...table.subarray(4 * code, 4 * code + 3)]);
        context.fillText(block.value.toFixed(2), box.x + (box.w - gap) / 2, box.y + box.h / 2 - 1);
      }
      if (number === this.hovered?.number) {
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

  hitAt(point) {
    const block = this.map && blockAt(this.map, this.geometry, point);
    return block ? { number: this.map.blocks.indexOf(block) } : null;
  }

  lines({ number }) {
    return [blockText(this.map.blocks[number], this.result.members > 1)];
  }

  moved(hit, key) {
    return this.map ? { number: moved(this.map, hit?.number ?? null, key) } : null;
  }

  pointOf({ number }) {
    return boxOf(this.map, this.geometry, this.map.blocks[number]);
  }

  choose({ number }) {
    if (!this.app.computes) return;  // a shared file has no other page
    this.app.open({ page: 'timeline', rank: this.map.blocks[number].rank, ranks: [] });
  }
}
