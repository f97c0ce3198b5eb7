/** Elements made from data: data goes in as text and never becomes markup. */

/**
 * @param {string} tag
 * @param {Object<string, any>} attributes `text` is the content, `on` has listeners by event; null and
 *   false leave an attribute out, true sets it without a value
 * @param {...(Node|string|(Node|string)[])} content
 */
export function make(tag, attributes = {}, ...content) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'text') element.textContent = value;
    else if (name === 'on') for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...content.flat().filter((part) => part !== undefined));
  return element;
}
