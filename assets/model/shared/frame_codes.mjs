/** Colours of frames, as bytes of lib/canvas/colour.mjs. Pure. */
import { NO_DATA, STRONGEST } from '../../lib/canvas/colour.mjs';

/** Greatest finite size of the values. */
export function peakOf(values) {
  let peak = 0;
  for (const value of values) {
    const size = Math.abs(value);
    if (size > peak && size < Infinity) peak = size;
  }
  return peak;
}

/**
 * Shares go from grey to one colour by their square root, so that faint attention is visible; values with
 * a sign go to one colour below 0 and to the other above.
 * @param {ArrayLike<number>} values @param {boolean} hasSign @param {number} peak
 */
export function codesOf(values, hasSign, peak) {
  const codes = new Uint8Array(values.length);
  const full = peak || 1;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (Number.isNaN(value)) { codes[i] = NO_DATA; continue; }
    const share = Math.min(1, Math.abs(value) / full);
    const strength = Math.round((hasSign ? share : Math.sqrt(share)) * STRONGEST);
    codes[i] = strength < 1 ? 1 : 2 * strength + (hasSign && value > 0 ? 1 : 0);
  }
  return codes;
}

/** The same for the bytes of model/tiles: 0 no data; shares 1..255; with a sign, 128 stands for 0. */
export function codesOfTile(tile, hasSign) {
  return Uint8Array.from(tile, (byte) => {
    if (byte === 0) return NO_DATA;
    const strength = hasSign ? Math.abs(byte - 128) : Math.round((byte - 1) * STRONGEST / 254);
    return strength < 1 ? 1 : 2 * Math.min(STRONGEST, strength) + (hasSign && byte > 128 ? 1 : 0);
  });
}

/** Thumbnail of a frame, made as on the server: means of blocks. */
export function thumbnail({ values, rows, columns }, height, width, hasSign) {
  const small = new Float32Array(height * width);
  for (let y = 0; y < height; y++) {
    const [top, bottom] = span(y, height, rows);
    for (let x = 0; x < width; x++) {
      const [left, right] = span(x, width, columns);
      let sum = 0;
      for (let row = top; row < bottom; row++) for (let column = left; column < right; column++) sum += values[row * columns + column];
      small[y * width + x] = sum / ((bottom - top) * (right - left));
    }
  }
  return codesOf(small, hasSign, peakOf(small));
}

/** First value of a pixel and the value after its last. */
function span(pixel, pixels, count) {
  const first = Math.floor(pixel * count / pixels);
  return [first, Math.max(first + 1, Math.floor((pixel + 1) * count / pixels))];
}

/**
 * Positions of thumbnails: heads next to each other, layers below each other. Frames without heads have
 * a row for each module and shard.
 * @param {{layer: number, head: number, name: string, shard: string}[]} frames
 * @returns {{rows: string[], columns: number[], at: [number, number][]}} at: row and column of each
 */
export function gridOf(frames) {
  const label = ({ layer, head, name, shard }) => (head >= 0 ? String(layer)
    : [layer < 0 ? name : `${layer}`, shard === 'whole' ? '' : shard].filter(Boolean).join(' '));
  const rowKey = ({ layer, head, name, shard }) => `${layer}~${head >= 0 ? '' : `${name}~${shard}`}`;
  const keys = [...new Map([...frames].sort((a, b) => (a.layer < 0) - (b.layer < 0) || a.layer - b.layer)
    .map((frame) => [rowKey(frame), label(frame)]))];
  const rowOf = new Map(keys.map(([key], index) => [key, index]));
  const columns = [...new Set(frames.map(({ head }) => head))].sort((a, b) => a - b);
  return {
    rows: keys.map(([, text]) => text), columns, at: frames.map((frame) => [rowOf.get(rowKey(frame)), columns.indexOf(frame.head)]),
  };
}
