/** The colour scale of the map: loads on a scale of log2, 1 in its middle. */
import { colourTable, cssColour, STRONGEST } from '../lib/canvas/colour.mjs';
import { make } from '../lib/dom.mjs';

const TICKS = ['\u2264 0.25 x', '0.5 x', '1 x', '2 x', '\u2265 4 x'];
const STOPS = 16;

/** CSS gradient from the strongest colour of less to that of more. Pure. */
export function gradientOf(table) {
  const colours = [];
  for (let i = -STOPS; i <= STOPS; i++) {
    const strength = Math.round(Math.abs(i) * STRONGEST / STOPS);
    const code = i ? 2 * strength + (i > 0 ? 1 : 0) : 1;
    colours.push(cssColour(table, code));
  }
  return `linear-gradient(to right, ${colours.join(', ')})`;
}

export function showLegend(element, theme) {
  const bar = make('div', { class: 'scale-bar' });
  bar.style.background = gradientOf(colourTable(theme));
  const ticks = make('div', { class: 'scale-ticks' }, TICKS.map((text, at) => {
    const tick = make('span', {}, text);
    tick.style.left = `${100 * at / (TICKS.length - 1)}%`;
    return tick;
  }));
  element.replaceChildren(
    make('div', { class: 'scale', role: 'img', 'aria-label': 'Colour scale of the load: a quarter of the mean of the layer or less, to four times the mean or more' }, bar, ticks),
    make('span', { class: 'scale-note quiet' }, 'tokens / mean of the layer; grey: as uneven as a router that chooses by chance'),
  );
}
