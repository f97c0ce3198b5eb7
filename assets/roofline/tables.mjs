/** Tables of the operations, and of the kernels that are slow on some rank. */
import { make } from '../lib/dom.mjs';
import { cells, deviceCells, shortName, slowCells } from './text.mjs';

const HEADS = ['operation', 'type', 'calls', 'time', 'of all', 'TFLOP/s', 'GB/s', 'FLOP/B', 'bound by', 'roofline', 'to save'];
const TEXTS = new Set([0, 1, 8]);
const SLOW_HEADS = ['rank', 'operation', 'kernel', 'median', 'peers', 'more', 'costs'];
const SLOW_TEXTS = new Set([0, 1, 2]);

const kind = (texts, at) => (texts.has(at) ? null : 'number');
const head = (heads, texts) => make('thead', {}, make('tr', {}, heads.map((text, at) => make('th', { scope: 'col', class: kind(texts, at) }, text))));

/** The longest operations; `mark` as in the chart. */
export function operationTable({ operations, kernel_ms: kernelMs }, mark) {
  const row = (one, index) => make('tr', { 'data-operation': index, on: { pointerenter: () => mark(index), pointerleave: () => mark(null) } },
    make('th', { scope: 'row', title: one.kernels.join('\n') }, `${shortName(one.name)} `, make('span', { class: 'roofline-shapes quiet' }, one.shapes)),
    cells(one, kernelMs).map((text, at) => make('td', { class: kind(TEXTS, at + 1) }, text)));
  return make('div', { class: 'scroll roofline-operations', tabindex: 0, role: 'region', 'aria-label': 'operations' },
    make('table', {}, head(HEADS, TEXTS), make('tbody', {}, operations.map(row))));
}

/** Devices and kernels that take longer on a rank than on its peers; null where there are none. */
export function slowTable({ ranks }, app) {
  if (!ranks.length) return null;
  const row = (one, texts) => make('tr', {},
    make('th', { scope: 'row' }, make('button', { type: 'button', value: one.rank, title: 'show it on the timeline', on: { click: () => app.open({ page: 'timeline', rank: one.rank, ranks: [] }) } }, `rank ${one.rank}`)),
    texts.map((text, at) => make('td', { class: kind(SLOW_TEXTS, at + 1), title: at === 1 ? text : null }, text)));
  return make('div', { class: 'scroll roofline-slow' },
    make('table', {}, head(SLOW_HEADS, SLOW_TEXTS), make('tbody', {}, ranks.flatMap((rank) => [
      ...(rank.is_device ? [row(rank, deviceCells(rank))] : []), ...rank.kernels.map((one) => row(one, slowCells(one)))]))));
}
