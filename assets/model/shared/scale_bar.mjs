/** A colour scale with its numbers. */
import { cssColour } from '../../lib/canvas/colour.mjs';
import { make } from '../../lib/dom.mjs';

const STOPS = 17;

/**
 * @param {string} label for screen readers @param {Uint8ClampedArray} table colourTable()
 * @param {(share: number) => number} code byte at a position from 0 to 1
 * @param {{at: number, text: string}[]} ticks
 */
export function scaleBar(label, table, code, ticks) {
  const bar = make('div', { class: 'scale-bar' });
  const stops = Array.from({ length: STOPS }, (_, i) => i / (STOPS - 1));
  bar.style.background = `linear-gradient(to right, ${stops.map((at) => `${cssColour(table, code(at))} ${(100 * at).toFixed(1)}%`).join(', ')})`;
  const marks = ticks.map(({ at, text }) => {
    const tick = make('span', {}, text);
    tick.style.left = `${100 * at}%`;
    return tick;
  });
  return make('div', { class: 'scale', role: 'img', 'aria-label': label }, [bar, make('div', { class: 'scale-ticks' }, marks)]);
}
