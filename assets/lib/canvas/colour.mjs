/**
 * Colours of metrics: bytes of app/views/ranks/scales.py become colours of a perceptually uniform scale.
 * Both arms of the scale are straight lines in OKLab (Ottosson 2020) from the grey of noise to the
 * strongest colour, so that equal steps of a value look equal. Pure: no DOM.
 *
 * byte: 0 not recorded | 1 within noise | 2s less than the peers, 2s + 1 more, strength s 1..127
 *
 * @typedef {{noise: string, more: string, less: string}} Ramp CSS hex colours
 */

export const NO_DATA = 0;
export const IN_NOISE = 1;
export const STRONGEST = 127;
const FAINTEST = 0.12;  // the first step out of the grey is visible

/** @param {string} hex '#RRGGBB' @returns {number[]} sRGB 0..255 */
export const rgbOf = (hex) => [1, 3, 5].map((digit) => parseInt(hex.slice(digit, digit + 2), 16));

/** @param {number[]} rgb sRGB 0..255 @returns {number[]} linear light 0..1 */
const linear = (rgb) => rgb.map((channel) => {
  const c = channel / 255;
  return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
});

/** Contrast of two sRGB colours, 1..21, by WCAG 2.2; text needs 4.5. */
export function contrast(one, other) {
  const [low, high] = [one, other].map((rgb) => {
    const [r, g, b] = linear(rgb);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }).sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

/** Black or white, whichever contrasts more with an sRGB colour: on any colour that is 4.58 or more. */
export function inkOn(rgb) {
  return contrast(rgb, [0, 0, 0]) > contrast(rgb, [255, 255, 255]) ? '#000000' : '#FFFFFF';
}

/** @param {string} hex '#RRGGBB' @returns {number[]} OKLab */
export function toOklab(hex) {
  const [r, g, b] = linear(rgbOf(hex));
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

/** @param {number[]} lab OKLab @returns {number[]} sRGB 0..255, cut to what a screen shows */
export function fromOklab([lightness, a, b]) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((c) => {
    const clear = Math.min(1, Math.max(0, c));
    const shown = clear <= 0.0031308 ? 12.92 * clear : 1.055 * clear ** (1 / 2.4) - 0.055;
    return Math.round(shown * 255);
  });
}

/** Colour between two, `share` 0..1 of the way, along a straight line in OKLab. */
export function between(from, to, share) {
  const [a, b] = [toOklab(from), toOklab(to)];
  return fromOklab(a.map((value, i) => value + (b[i] - value) * share));
}

/**
 * RGBA of every byte; byte 0 is transparent, so that the hatching below shows missing data.
 * @param {Ramp} ramp @returns {Uint8ClampedArray} 256 x 4
 */
export function colourTable(ramp) {
  const table = new Uint8ClampedArray(1024);
  table.set([...between(ramp.noise, ramp.noise, 0), 255], 4);
  for (let strength = 1; strength <= STRONGEST; strength++) {
    const share = FAINTEST + (1 - FAINTEST) * (strength - 1) / (STRONGEST - 1);
    table.set([...between(ramp.noise, ramp.less, share), 255], 8 * strength);
    table.set([...between(ramp.noise, ramp.more, share), 255], 8 * strength + 4);
  }
  return table;
}

/** Byte of a deviation, as in app/views/ranks/scales.py. */
export function codeOf(deviation, noise, full) {
  if (deviation === null || Number.isNaN(deviation)) return NO_DATA;
  const strength = Math.min(STRONGEST, Math.round(Math.abs(deviation) * STRONGEST / full));
  if (!(Math.abs(deviation) > noise) || strength < 1) return IN_NOISE;
  return 2 * strength + (deviation > 0 ? 1 : 0);
}

/** CSS colour of a byte. */
export function cssColour(table, code) {
  const first = 4 * code;
  return `rgb(${table[first]} ${table[first + 1]} ${table[first + 2]})`;
}

/** RGBA pixels of bytes, in the form of ImageData. */
export function paint(codes, table, pixels = new Uint8ClampedArray(4 * codes.length)) {
  const from = new Uint32Array(table.buffer, table.byteOffset, 256);
  const to = new Uint32Array(pixels.buffer, pixels.byteOffset, codes.length);
  for (let i = 0; i < codes.length; i++) to[i] = from[codes[i]];
  return pixels;
}
