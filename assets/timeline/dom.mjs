/** Making elements without markup in text: data goes in as text only. */

/**
 * @param {string} name @param {Object} [attributes] `class`, `on` {event: listener}, properties
 * @param {...(Node|string)} children
 */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'class') element.className = value;
    else if (key === 'on') for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (key.includes('-') || key === 'role' || key === 'for' || key === 'scope') element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children);
  return element;
}

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
