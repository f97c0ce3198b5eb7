/** Thumbnails of all heads of all layers in one step. */
import { CanvasView } from '../../lib/canvas/canvas_view.mjs';
import { colourTable, paint } from '../../lib/canvas/colour.mjs';
import { frameText, placeOf } from '../shared/frame.mjs';
import { gridOf } from '../shared/frame_codes.mjs';

const LEFT = 54;
const GAP = 2;
const TILE_PX = { least: 6, most: 84 };
const STRIP_PX = 30;

export class TileGrid extends CanvasView {
  /** @param {{chosen: (key: string, event: Event) => void}} tell */
  constructor(element, tell) {
    super(element, { label: 'Thumbnails by layer and head', className: 'tile-grid' });
    Object.assign(this, { tell, tiles: null, chosen: null, pins: [] });
  }

  /**
   * @param {?{what: string, height: number, width: number, frames: Object[], codes: Uint8Array[]}} tiles
   *   codes: bytes of lib/canvas/colour.mjs of each frame, height x width
   */
  show(tiles) {
    this.tiles = tiles;
    this.grid = tiles && gridOf(tiles.frames);
    this.canvas.setAttribute('aria-label', tiles ? `${tiles.frames.length} thumbnails of ${tiles.what}: layers below each other, `
      + 'heads beside each other. Arrow keys move, Enter opens one.' : 'No thumbnails');
    this.redraw();
  }

  layout(width) {
    if (!this.tiles?.frames.length) return 0;
    const { rows, columns } = this.grid;
    this.cell = {
      w: columns.length > 1 || columns[0] >= 0 ? Math.min(TILE_PX.most, Math.max(TILE_PX.least, (width - LEFT - 8) / columns.length)) : width - LEFT - 8,
    };
    this.cell.h = columns[0] >= 0 ? this.cell.w : STRIP_PX;
    return Math.round(rows.length * this.cell.h + 30);
  }

  paint(context, theme) {
    const { tiles, cell } = this;
    const table = colourTable(theme);
    const canvas = document.createElement('canvas');
    Object.assign(canvas, { width: tiles.width, height: tiles.height });
    const small = canvas.getContext('2d', { willReadFrequently: true });
    const image = small.createImageData(tiles.width, tiles.height);
    context.imageSmoothingEnabled = false;
    tiles.frames.forEach((frame, at) => {
      paint(tiles.codes[at], table, image.data);
      small.putImageData(image, 0, 0);
      const { x, y } = this.#place(at);
      context.drawImage(canvas, x, y, cell.w - GAP, cell.h - GAP);
      const key = placeOf(frame);
      if (key === this.chosen || this.pins.includes(key) || at === this.at?.at) {
        context.lineWidth = 2;
        context.strokeStyle = key === this.chosen || at === this.at?.at ? theme.text : theme.link;
        context.strokeRect(x - 1, y - 1, cell.w, cell.h);
      }
    });
    this.#labels(context, theme);
  }

  #place(at) {
    const [row, column] = this.grid.at[at];
    return { x: LEFT + column * this.cell.w, y: 4 + row * this.cell.h };
  }

  #labels(context, theme) {
    const { cell, grid } = this;
    context.fillStyle = theme.quiet;
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    const every = Math.ceil(13 / cell.h);
    grid.rows.forEach((text, row) => {
      if (row % every === 0) context.fillText(text, LEFT - 6, 4 + (row + 0.5) * cell.h, LEFT - 8);
    });
    if (grid.columns[0] < 0) return;
    context.textAlign = 'center';
    context.textBaseline = 'top';
    const apart = Math.ceil(20 / cell.w);
    grid.columns.forEach((head, column) => {
      if (column % apart === 0) context.fillText(String(head), LEFT + (column + 0.5) * cell.w, 6 + grid.rows.length * cell.h);
    });
    context.textAlign = 'right';
    context.fillText('head', LEFT - 6, 6 + grid.rows.length * cell.h);
  }

  hitAt({ x, y }) {
    if (!this.cell || !this.tiles) return null;
    const [row, column] = [Math.floor((y - 4) / this.cell.h), Math.floor((x - LEFT) / this.cell.w)];
    return this.#hit(row, column);
  }

  #hit(row, column) {
    const at = this.grid.at.findIndex(([r, c]) => r === row && c === column);
    return at < 0 ? null : { at };
  }

  lines({ at }) {
    const frame = this.tiles.frames[at];
    return [frameText(frame), ...(frame.cost_ns > 0 ? [`took ${(frame.cost_ns / 1e6).toFixed(2)} ms of rank ${frame.rank}`] : [])];
  }

  moved(hit, key) {
    if (!this.tiles?.frames.length) return null;
    if (!hit) return { at: Math.max(0, this.tiles.frames.findIndex((frame) => placeOf(frame) === this.chosen)) };
    const [row, column] = this.grid.at[hit.at];
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key];
    return this.#hit(row + down, column + right) ?? hit;
  }

  pointOf({ at }) {
    return this.#place(at);
  }

  choose({ at }, event) {
    this.tell.chosen(placeOf(this.tiles.frames[at]), event);
  }
}
