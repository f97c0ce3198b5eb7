/** Buttons and tables of the timeline's panels. */
import { make } from '../../lib/dom.mjs';

export const button = (text, act, attributes = {}) => make(
  'button', { type: 'button', on: { click: act }, ...attributes }, text);

/** A table of rows of cells (text, numbers or nodes); the first cell of each row heads it. */
export function table(caption, head, rows) {
  const cell = (content, name, attributes) => make(
    name, { ...attributes, class: name === 'td' && typeof content !== 'object' ? 'number' : '' },
    typeof content === 'object' ? content : String(content));
  return make('table', {},
    make('caption', { class: 'visually-hidden' }, caption),
    make('thead', {}, make('tr', {}, ...head.map((text, i) => make('th', { scope: 'col', class: i ? 'number' : '' }, text)))),
    make('tbody', {}, ...rows.map(([first, ...others]) => make('tr', {},
      cell(first, 'th', { scope: 'row' }), ...others.map((content) => cell(content, 'td', {}))))));
}
