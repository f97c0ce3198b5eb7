/**
 * Keys that work on every page. Pure: finds the action of a key; page_controls.mjs carries it out.
 * A view with the focus has keys of its own and calls preventDefault for those.
 */

const GO_MS = 1200;

/**
 * @typedef {{name: string, title: string, key: string}} Page
 * Contents of the help dialog: [group, [[keys, what they do], ...]].
 * @param {Page[]} pages
 */
export const help = (pages) => [
  ['Everywhere', [
    ['j  k', 'next, previous finding'],
    ['e', 'evidence: open or close the drawer'],
    [`g then ${pages.map((page) => page.key).join(' ')}`,
      `go to ${pages.map((page) => page.name).join(', ')}`],
    ['c', 'copy a link to this page with its steps, ranks, selection and marks'],
    ['?', 'this help'],
    ['Esc', 'close, clear'],
  ]],
  ['Timeline', [
    ['w  s  or ctrl + wheel', 'zoom in, out'],
    ['a  d  or shift + drag', 'pan left, right'],
    ['drag', 'select an area: its sums appear below'],
    ['f', 'fit the selection'],
    ['[  ]', 'previous, next member of a collective'],
    [',  .', 'previous and next slice'],
    ['m', 'set or remove a mark at the pointer'],
    ['/', 'search'],
    ['p', 'pin a rank'],
    ['shift + g', 'show the median DP peer in the lane, to compare'],
    ['click, double-click', 'show details, zoom to the slice'],
  ]],
  ['Step-time strip', [
    ['drag', 'choose steps for every view'],
    ['left  right', 'move the chosen steps; with shift: widen them'],
    ['double-click, Esc', 'all steps again'],
  ]],
  ['Grid and heat map', [
    ['drag, wheel', 'turn or pan, zoom'],
    ['arrows', 'move the cursor'],
    ['click', 'select a rank'],
    ['Enter', 'open the timeline'],
  ]],
  ['Model', [
    ['arrows, Enter', 'move in a map, choose the marked cell'],
    ['shift + click', 'pin a head next to the others'],
  ]],
];

/** Whether an event comes from a field that takes text. */
export function isTyping(target) {
  const name = target?.tagName;
  return name === 'INPUT' || name === 'TEXTAREA' || name === 'SELECT' || !!target?.isContentEditable;
}

export class Keys {
  #goPressedMs = -Infinity;

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
    const going = now - this.#goPressedMs < GO_MS;
    this.#goPressedMs = -Infinity;
    const page = going && this.pages.find(({ key }) => key === event.key);
    if (page) return { act: 'page', page: page.name };
    if (event.key === 'g') this.#goPressedMs = now;
    const act = {
      j: 'finding-next', k: 'finding-previous', e: 'drawer', c: 'copy-link', '?': 'help',
    }[event.key];
    return act ? { act } : null;
  }
}

/**
 * Id of the finding `by` after `current`, wrapping around; null if there are no findings.
 * @param {string[]} ids @param {?string} current @param {1|-1} by
 */
export function findingAfter(ids, current, by) {
  if (!ids.length) return null;
  const index = ids.indexOf(current);
  if (index < 0) return by > 0 ? ids[Math.min(1, ids.length - 1)] : ids[ids.length - 1];
  return ids[(index + by + ids.length) % ids.length];
}
