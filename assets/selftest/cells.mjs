/**
 * A matrix of pairs: cells, their places on a canvas, texts. Pure: no DOM.
 *
 * @typedef {Object} Matrix
 * @property {string[]} names of rows and columns @property {Float32Array} value row by row; NaN: none
 * @property {?number} usual median of the pairs @property {string} unit
 * @property {Object<string, string>} texts of pairs 'row,column'
 * @property {string} what 'rank' or 'host': what the names are
 */
import { codeOf } from '../lib/canvas/colour.mjs';

/** Doublings of the time: grey up to 1.1 times, full colour from 4 times. */
export const NOISE = Math.log2(1.1);
export const FULL = 2;
const LEAST_PX = 6;
const MOST_PX = 44;
const LETTER_PX = 7;

/** How many times as long as usual; NaN for none. */
export const slownessOf = (matrix, value) => matrix.usual / value;

/** Colour byte of a bandwidth: the slower, the stronger; what is faster has the other colour. */
export const codeOfValue = (matrix, value) => codeOf(Math.log2(slownessOf(matrix, value)), NOISE, FULL);

/** What the bandwidths of ordinary steps are, below it. @param {?Matrix} matrix by host */
export const trafficText = (matrix) => `Below: what the steps of this run achieved ${matrix?.names.length === 1 ? 'inside its host' : 'between hosts'}.`;

const STOPS = 16;
/** Colour bytes of the scale, from a quarter of the usual time to four times it. */
export const SCALE = Array.from({ length: 2 * STOPS + 1 }, (_, i) => codeOf(FULL * (i - STOPS) / STOPS, NOISE, FULL));

/**
 * Square cells as large as fit. @returns {{x: number, y: number, cell: number, width: number, height: number}}
 */
export function geometryOf(matrix, width) {
  const longest = Math.max(0, ...matrix.names.map((name) => name.length));
  const label = Math.min(Math.max(28, Math.ceil(longest * LETTER_PX) + 10), Math.floor(width / 4));
  const cell = Math.min(MOST_PX, Math.max(1, (width - label - 8) / Math.max(1, matrix.names.length)));
  return { x: label, y: 20, cell, width, height: Math.ceil(20 + cell * matrix.names.length + 8) };
}

/** Whether single cells are large enough to be distinguished. */
export const isReadable = (geometry) => geometry.cell >= LEAST_PX;

/** The cell at a point; null outside. @returns {?{row: number, column: number}} */
export function cellAt(matrix, { x, y, cell }, point) {
  const [column, row] = [Math.floor((point.x - x) / cell), Math.floor((point.y - y) / cell)];
  const isInside = row >= 0 && column >= 0 && row < matrix.names.length && column < matrix.names.length;
  return isInside ? { row, column } : null;
}

/** The cell that an arrow key leads to; the first one if there is no current one. */
export function moved(matrix, hit, key) {
  if (!matrix.names.length) return null;
  if (!hit) return { row: 0, column: Math.min(1, matrix.names.length - 1) };
  const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key];
  const clamp = (index) => Math.min(matrix.names.length - 1, Math.max(0, index));
  return { row: clamp(hit.row + down), column: clamp(hit.column + right) };
}

export const valueAt = ({ names, value }, { row, column }) => value[row * names.length + column];

/** 'rank 3' or the host's name. */
export const nameOf = ({ names, what }, index) => (what === 'rank' ? `rank ${names[index]}` : names[index]);

/** Lines of a cell's tooltip. @returns {string[]} */
export function cellLines(matrix, { row, column }) {
  const value = valueAt(matrix, { row, column });
  const title = row === column ? nameOf(matrix, row) : `${nameOf(matrix, row)} and ${nameOf(matrix, column)}`;
  if (Number.isNaN(value)) return [title, row === column && matrix.what === 'rank' ? 'a rank is not paired with itself' : 'not measured'];
  const text = matrix.texts[`${row},${column}`] ?? matrix.texts[`${column},${row}`] ?? '';
  return [title, `${amount(value)} ${matrix.unit}, ${timesText(slownessOf(matrix, value))}`, ...(text ? [text] : [])];
}

/** 'as long as usual', '2.4 times as long as usual'. */
export function timesText(times) {
  if (times > 0.91 && times < 1.1) return 'about as usual';
  return times >= 1 ? `${amount(times)} times as long as usual` : `${amount(1 / times)} times as fast as usual`;
}

/** Three digits: 0.00123, 1.23, 123, 12,300. */
export function amount(value) {
  if (value === 0) return '0';
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en');
  return Number(value.toPrecision(3)).toString();
}

/** What fits in a cell, two digits: 0.012, 12, 310; '<0.01' of less. */
export const cellText = (value) => (value > 0 && value < 0.01 ? '<0.01' : amount(Number(value.toPrecision(2))));

/** The pairs, slowest first. @returns {{row: number, column: number, value: number}[]} */
export function slowestPairs(matrix, most) {
  const pairs = [];
  for (let row = 0; row < matrix.names.length; row++) {
    for (let column = row; column < matrix.names.length; column++) {
      const value = valueAt(matrix, { row, column });
      if (!Number.isNaN(value)) pairs.push({ row, column, value });
    }
  }
  return pairs.sort((a, b) => a.value - b.value).slice(0, most);
}

/** 64 KiB, 8 MiB. */
export function sizeText(numBytes) {
  return numBytes >= 1 << 20 ? `${amount(numBytes / (1 << 20))} MiB` : `${amount(numBytes / 1024)} KiB`;
}
