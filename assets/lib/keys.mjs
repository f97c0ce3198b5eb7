/**
 * Keys that work on every page. Pure: which action a key means; frame.mjs carries it out.
 * Views have keys of their own while they have the focus; what they use they preventDefault.
 */

const GO_MS = 1200;

/**
 * @typedef {{name: string, title: string, key: string}} Page
 * What the help dialog lists: [group, [[keys, what they do], ...]].
 * @param {Page[]} pages
 */
export const help = (pages) => [
  ['Everywhere', [
    ['j  k', 'next, previous finding'],
    ['e', 'evidence: open or close the drawer'],
    [`g then ${pages.map((page) => page.key).join(' ')}`,
      `go to ${pages.map((page) => page.name).join(', ')}`],
    ['c', 'copy link to exactly this view'],
    ['?', 'this help'],
    ['Esc', 'close, clear'],
  ]],
  ['Timeline', [
    ['w  s  or wheel + ctrl', 'zoom in, out'],
    ['a  d  or shift + drag', 'pan left, right'],
    ['drag', 'select an area: its sums stand below'],
    ['f', 'fit the selection'],
    ['[  ]', 'follow a flow back and forth'],
    [',  .', 'previous and next slice'],
    ['m', 'mark'],
    ['/', 'search'],
    ['p', 'pin a track'],
    ['shift + g', 'the median DP peer as a ghost in the lane'],
    ['click, double-click', 'details, zoom to it'],
  ]],
  ['Step-time strip', [
    ['drag', 'choose steps for every view'],
    ['left  right', 'move the chosen steps; with shift: widen them'],
    ['double-click, Esc', 'all steps again'],
  ]],
  ['Grid and heat map', [
    ['drag, wheel', 'turn or pan, zoom'],
    ['arrows', 'move the cursor'],
    ['Enter, click', 'select a rank'],
  ]],
  ['Model', [
    ['arrows, Enter', 'move in a map, choose what is pointed at'],
    ['shift + click', 'pin a head beside the others'],
  ]],
];

/** Whether typing goes into a field. */
export function isTyping(target) {
  const name = target?.tagName;
  return name === 'INPUT' || name === 'TEXTAREA' || name === 'SELECT' || !!target?.isContentEditable;
}

export class Keys {
  #wentAt = -Infinity;

  /** @param {Page[]} pages */
  constructor(pages) {
    this.pages = pages;
  }

  /**
   * @param {{key: string, ctrlKey?: boolean, metaKey?: boolean, altKey?: boolean,
   *   defaultPrevented?: boolean, target?: any}} event
   * @param {number} now ms
   * @returns {?{act: string, page?: string}}
   */
  action(event, now) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return null;
    if (event.key === 'Escape') return { act: 'escape' };
    if (isTyping(event.target)) return null;
    const going = now - this.#wentAt < GO_MS;
    this.#wentAt = -Infinity;
    const page = going && this.pages.find(({ key }) => key === event.key);
    if (page) return { act: 'page', page: page.name };
    if (event.key === 'g') this.#wentAt = now;
    const act = {
      j: 'finding-next', k: 'finding-previous', e: 'drawer', c: 'copy-link', '?': 'help',
    }[event.key];
    return act ? { act } : null;
  }
}

/**
 * Id of the finding `by` further than `current`, around the ends; null where there is none.
 * @param {string[]} ids @param {?string} current @param {1|-1} by
 */
export function turned(ids, current, by) {
  if (!ids.length) return null;
  const at = ids.indexOf(current);
  if (at < 0) return by > 0 ? ids[Math.min(1, ids.length - 1)] : ids[ids.length - 1];
  return ids[(at + by + ids.length) % ids.length];
}
