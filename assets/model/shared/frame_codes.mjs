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
 * Shares go from grey to one colour by their root, so that faint attention is seen; what has a sign
 * goes to one colour below 0 and to the other above.
 * @param {ArrayLike<number>} values @param {boolean} hasSign @param {number} peak
 */
export function codesOf(values, hasSign, peak) {
  const codes = new Uint8Array(values.length);
  const full = peak || 1;
  for (let at = 0; at < values.length; at++) {
    const value = values[at];
    if (Number.isNaN(value)) { codes[at] = NO_DATA; continue; }
    const share = Math.min(1, Math.abs(value) / full);
    const strength = Math.round((hasSign ? share : Math.sqrt(share)) * STRONGEST);
    codes[at] = strength < 1 ? 1 : 2 * strength + (hasSign && value > 0 ? 1 : 0);
  }
  return codes;
}

/** The same of the bytes of model/tiles: 0 nothing; shares 1..255; with a sign 128 is 0. */
export function codesOfTile(tile, hasSign) {
  return Uint8Array.from(tile, (byte) => {
    if (byte === 0) return NO_DATA;
    const strength = hasSign ? Math.abs(byte - 128) : Math.round((byte - 1) * STRONGEST / 254);
    return strength < 1 ? 1 : 2 * Math.min(STRONGEST, strength) + (hasSign && byte > 128 ? 1 : 0);
  });
}

/** Thumbnail of a frame in the browser, as app/views/frames.py makes it: means of blocks. */
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

/** First value of a pixel and the one after its last. */
function span(pixel, pixels, count) {
  const first = Math.floor(pixel * count / pixels);
  return [first, Math.max(first + 1, Math.floor((pixel + 1) * count / pixels))];
}

/**
 * Where thumbnails stand: heads beside each other, layers below each other; what has no heads has a
 * row of its own for each module and shard.
 * @param {{layer: number, head: number, name: string, shard: string}[]} frames
 * @returns {{rows: string[], columns: number[], at: [number, number][]}} at: row and column of each
 */
export function gridOf(frames) {
  const label = ({ layer, head, name, shard }) => (head >= 0 ? String(layer)
    : [layer < 0 ? name : `${layer}`, shard === 'whole' ? '' : shard].filter(Boolean).join(' '));
  const rowKey = (one) => `${one.layer}~${one.head >= 0 ? '' : `${one.name}~${one.shard}`}`;
  const keys = [...new Map([...frames].sort((a, b) => (a.layer < 0) - (b.layer < 0) || a.layer - b.layer)
    .map((one) => [rowKey(one), label(one)]))];
  const rowOf = new Map(keys.map(([key], at) => [key, at]));
  const columns = [...new Set(frames.map(({ head }) => head))].sort((a, b) => a - b);
  return {
    rows: keys.map(([, text]) => text), columns, at: frames.map((one) => [rowOf.get(rowKey(one)), columns.indexOf(one.head)]),
  };
}
