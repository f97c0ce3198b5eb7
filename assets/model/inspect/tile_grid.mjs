/** Thumbnails of all heads of all layers in one step. */
import { CanvasView } from '../../lib/canvas/canvas_view.mjs';
import { colourTable, paint } from '../../lib/canvas/colour.mjs';
import { frameText, frameKey } from '../shared/frame.mjs';
import { gridOf } from '../shared/frame_codes.mjs';

const LEFT = 54;
const GAP = 2;
const TILE_PX = { least: 6, most: 84 };
const STRIP_PX = 30;

export class TileGrid extends CanvasView {
  /** @param {{chosen: (key: string, event: Event) => void}} handlers */
  constructor(element, handlers) {
    super(element, { label: 'Thumbnails by layer and head', className: 'tile-grid' });
    Object.assign(this, { handlers, tiles: null, chosen: null, pins: [] });
  }

  /**
   * @param {?{what: string, height: number, width: number, frames: Object[], codes: Uint8Array[]}} tiles
   *   codes: bytes of lib/canvas/colour.mjs of each frame, height x width
   */
  show(tiles) {
    this.tiles = tiles;
    this.grid = tiles && gridOf(tiles.frames);
    this.canvas.setAttribute('aria-label', tiles ? `${tiles.frames.length} thumbnails of ${tiles.what}: layers below each other, `
      + 'heads next to each other. Arrow keys move, Enter opens one.' : 'No thumbnails');
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
    tiles.frames.forEach((frame, index) => {
      paint(tiles.codes[index], table, image.data);
      small.putImageData(image, 0, 0);
      const { x, y } = this.#place(index);
      context.drawImage(canvas, x, y, cell.w - GAP, cell.h - GAP);
      const key = frameKey(frame);
      if (key === this.chosen || this.pins.includes(key) || index === this.hovered?.index) {
        context.lineWidth = 2;
        context.strokeStyle = key === this.chosen || index === this.hovered?.index ? theme.text : theme.link;
        context.strokeRect(x - 1, y - 1, cell.w, cell.h);
      }
    });
    this.#labels(context, theme);
  }

  #place(index) {
    const [row, column] = this.grid.at[index];
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
    const everyColumn = Math.ceil(20 / cell.w);
    grid.columns.forEach((head, column) => {
      if (column % everyColumn === 0) context.fillText(String(head), LEFT + (column + 0.5) * cell.w, 6 + grid.rows.length * cell.h);
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
    const index = this.grid.at.findIndex(([r, c]) => r === row && c === column);
    return index < 0 ? null : { index };
  }

  lines({ index }) {
    const frame = this.tiles.frames[index];
    return [frameText(frame), ...(frame.cost_ns > 0 ? [`cost ${(frame.cost_ns / 1e6).toFixed(2)} ms on rank ${frame.rank}`] : [])];
  }

  moved(hit, key) {
    if (!this.tiles?.frames.length) return null;
    if (!hit) return { index: Math.max(0, this.tiles.frames.findIndex((frame) => frameKey(frame) === this.chosen)) };
    const [row, column] = this.grid.at[hit.index];
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key];
    return this.#hit(row + down, column + right) ?? hit;
  }

  pointOf({ index }) {
    return this.#place(index);
  }

  choose({ index }, event) {
    this.handlers.chosen(frameKey(this.tiles.frames[index]), event);
  }
}
