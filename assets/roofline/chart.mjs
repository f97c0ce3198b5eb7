/** The roofline chart: operations by arithmetic intensity and speed, below what the device can do. */
import { make } from '../lib/dom.mjs';
import { along, extent, pathOf, placed, radius, roofCorners, roofsOf } from './geometry.mjs';
import { pointText, roofText } from './text.mjs';

const BOX = { width: 860, height: 230 };
const SVG = 'http://www.w3.org/2000/svg';

function drawn(tag, attributes, text = '') {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

/** Lines at the powers of ten, with their labels. */
function axes(found) {
  const { width, height } = BOX;
  const powers = ([low, high]) => Array.from({ length: high - low + 1 }, (_, index) => 10 ** (low + index));
  const label = (value) => (value >= 1 ? value.toLocaleString('en') : String(Number(value.toPrecision(1))));
  return [
    ...powers(found.x).flatMap((value) => {
      const x = along(value, found.x, width);
      return [drawn('line', { x1: x, x2: x, y1: 0, y2: height, class: 'roofline-grid' }), drawn('text', { x, y: height + 15, 'text-anchor': 'middle' }, label(value))];
    }),
    ...powers(found.y).flatMap((value) => {
      const y = height - along(value, found.y, height);
      return [drawn('line', { x1: 0, x2: width, y1: y, y2: y, class: 'roofline-grid' }), drawn('text', { x: -6, y: y + 4, 'text-anchor': 'end' }, label(value))];
    }),
    drawn('text', { x: width, y: height + 31, 'text-anchor': 'end' }, 'FLOPs per byte'),
    drawn('text', { x: -48, y: -10 }, 'TFLOP/s'),
  ];
}

function roofLines(roofs, gbPerS, found) {
  const { width, height } = BOX;
  return roofs.flatMap((roof) => [
    drawn('path', { d: pathOf(roofCorners(roof.tflops, gbPerS, found), found, BOX), class: 'roofline-roof' }),
    drawn('text', { x: width - 4, y: height - along(roof.tflops, found.y, height) - 4, 'text-anchor': 'end' }, roofText(roof)),
  ]);
}

/** Element of the chart, null where no operation has a place. `mark`: called with the index of the operation under the pointer, or null. */
export function chart({ operations, roofs: known, kernel_ms: kernelMs }, mark) {
  const points = placed(operations);
  if (!points.length) return null;
  const roofs = roofsOf(operations, known);
  const gbPerS = known?.gb_per_s ?? null;
  const found = extent(operations, roofs, gbPerS);
  const { width, height } = BOX;
  const svg = drawn('svg', { viewBox: `-54 -22 ${width + 80} ${height + 58}`, class: 'roofline-chart', role: 'img' });
  svg.setAttribute('aria-label', `${points.length} operations by arithmetic intensity and speed; the table has the same numbers`);
  svg.append(...axes(found), ...roofLines(roofs, gbPerS, found));
  for (const one of [...points].sort((a, b) => b.ms - a.ms)) {
    const index = operations.indexOf(one);
    const point = drawn('circle', {
      cx: along(one.intensity, found.x, width), cy: height - along(one.tflops_per_s, found.y, height), r: radius(one.ms, kernelMs),
      class: `roofline-point roofline-${one.bound ?? 'unknown'}`, 'data-operation': index,
    });
    point.append(drawn('title', {}, pointText(one)));
    point.addEventListener('pointerenter', () => mark(index));
    point.addEventListener('pointerleave', () => mark(null));
    svg.append(point);
  }
  return make('figure', { class: 'roofline-figure' }, make('div', { class: 'scroll' }, svg), make('figcaption', { class: 'quiet' },
    'A point is an operation, its area its share of the time; ', make('i', { class: 'roofline-compute' }), 'bound by compute, ', make('i', { class: 'roofline-memory' }),
    'bound by memory', points.some((one) => !one.bound) ? [', ', make('i', { class: 'roofline-unknown' }), 'roof unknown'] : [],
    '. Only operations whose FLOPs are known are here.'));
}
