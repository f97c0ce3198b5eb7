/** Elements made from data: text only, data never becomes markup. */

/**
 * @param {string} tag
 * @param {Object<string, ?string|number|boolean>} attributes `text` is the content; true, false and
 *   null are attributes that are there or not
 * @param {(Node|string)[]} children
 */
export function element(tag, attributes = {}, children = []) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === 'text') made.textContent = value;
    else made.setAttribute(key, value === true ? '' : value);
  }
  made.append(...children);
  return made;
}
