/** The colour scale with its numbers below a grid or a heat map. */
import { make } from '../dom.mjs';
import { formatValue } from '../value_text.mjs';
import { colourTable, cssColour, STRONGEST } from './colour.mjs';

/**
 * Numbers and gradient of a scale. Pure.
 * @param {Object} legend scales.legend of the server @param {Uint8ClampedArray} table
 * @returns {{gradient: string, ticks: {at: number, text: string}[], noise: ?[number, number]}}
 *   at: position from 0 to 1 along the scale; noise: the grey part
 */
export function scaleParts(legend, table) {
  const { metric, full, noise, centre } = legend;
  const middle = centre ?? 0;
  const value = (deviation) => {
    if (centre !== null) return formatValue(middle + deviation, metric);
    const size = formatValue(Math.abs(deviation), metric).replace(` ${metric.unit}`, '');
    return deviation === 0 ? 'as peers' : `${deviation > 0 ? '+' : '-'}${size}`;
  };
  const grey = Math.min(noise ?? 0, full);
  const at = (deviation) => 0.5 + deviation / full / 2;
  const stops = [];
  for (let i = -16; i <= 16; i++) {
    const deviation = full * i / 16;
    const strength = Math.max(1, Math.round(Math.abs(i) * STRONGEST / 16));
    const code = Math.abs(deviation) <= grey ? 1 : 2 * strength + (i > 0 ? 1 : 0);
    if (code > 1) stops.push([at(deviation), cssColour(table, code)]);
  }
  const edge = (sign) => {
    const strength = Math.max(1, Math.round(grey / full * STRONGEST));
    return grey < full ? cssColour(table, 2 * strength + (sign > 0 ? 1 : 0)) : cssColour(table, 1);
  };
  const all = [
    ...stops.filter(([p]) => p < at(-grey)), [at(-grey), edge(-1)],
    [at(-grey), cssColour(table, 1)], [at(grey), cssColour(table, 1)],
    [at(grey), edge(1)], ...stops.filter(([p]) => p > at(grey)),
  ];
  const gradient = `linear-gradient(to right, ${all.map(([p, c]) => `${c} ${(100 * p).toFixed(1)}%`).join(', ')})`;
  const ticks = [-1, -0.5, 0, 0.5, 1].map((part) => ({
    at: 0.5 + part / 2,
    text: (part === -1 ? '≤ ' : part === 1 ? '≥ ' : '') + value(full * part),
  }));
  return { gradient, ticks, noise: noise === null ? null : [at(-grey), at(grey)] };
}

/** Show the scale in `element`. */
export function showLegend(element, legend, theme) {
  const parts = scaleParts(legend, colourTable(theme));
  const bar = make('div', { class: 'scale-bar' });
  bar.style.background = parts.gradient;
  const ticks = make('div', { class: 'scale-ticks' }, parts.ticks.map(({ at, text }) => {
    const tick = make('span', {}, text);
    tick.style.left = `${100 * at}%`;
    return tick;
  }));
  const { metric, noise, centre } = legend;
  const [low, high] = [Math.max(0, 1 - noise), 1 + noise].map((value) => formatValue(value, metric));
  const limit = !noise || low === high ? '' : centre !== null
    ? `grey: within noise, ${low.replace(` ${metric.unit}`, '')} to ${high}`
    : `grey: within noise, up to ${formatValue(noise, metric)} from the peers`;
  const scaleUnit = centre === null ? `${metric.unit} more or less than the peers` : '';
  const note = [scaleUnit, limit].filter(Boolean).join('; ');
  element.replaceChildren(
    make('div', { class: 'scale', role: 'img', 'aria-label': [`Colour scale of ${metric.title}`, note].filter(Boolean).join('; ') }, [bar, ticks]),
    make('span', { class: 'scale-note quiet' }, note),
  );
}
