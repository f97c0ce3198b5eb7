/** The numbers of the what-if page: headline, tiles, tables with bars, causes. */
import { make } from '../lib/dom.mjs';
import { bars, headline, notesOf, ratio, seconds, replayedSteps, symbolText, tiles } from './messages.mjs';

const MOST_ROWS = 12;
const MOST_LINKS = 8;
const NOISE = 1.03;

/** A link to another view that opens without a reload; a shared file has no other view. */
function appLink(app, view, text) {
  if (!app.computes) return text;
  const link = make('a', { href: app.link(view) }, text);
  link.addEventListener('click', (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    app.open(view);
  });
  return link;
}

/** A link to a rank's timeline. */
export const rankLink = (app, rank, text = String(rank)) => appLink(app, { page: 'timeline', rank, ranks: [] }, text);

function rankLinks(app, ranks) {
  const separator = (i) => (i === 0 ? '' : i === ranks.length - 1 ? ' and ' : ', ');
  const links = ranks.slice(0, MOST_LINKS).flatMap((rank, i) => [separator(i), rankLink(app, rank, `rank ${rank}`)]);
  return ranks.length > MOST_LINKS ? [...links, ` and ${ranks.length - MOST_LINKS} more`] : links;
}

/** Headline, tiles and notes. */
export function showHead(element, app, result) {
  const notes = notesOf(result);
  element.replaceChildren(
    make('header', {}, [make('h2', { class: 'whatif-headline' }, headline(result)), make('span', { class: 'quiet' }, replayedSteps(result.steps))]),
    make('dl', { class: 'whatif-tiles' }, tiles(result).map((tile) => make('div', { class: tile.warns ? 'warns' : null }, [
      make('dt', { title: tile.formula ?? symbolText(tile.symbol) }, tile.label), make('dd', { class: 'whatif-value' }, tile.value),
      make('dd', { class: 'quiet' }, tile.ranks ? [`${tile.detail} `, ...rankLinks(app, tile.ranks), ` ${tile.afterRanks}`] : tile.detail),
    ]))),
    ...notes.warning.map((text) => make('p', { class: 'note' }, text)),
    ...(notes.plain.length ? [make('details', { class: 'whatif-notes' }, [
      make('summary', {}, notes.plain.length === 1 ? '1 assumption' : `${notes.plain.length} assumptions`),
      make('ul', {}, notes.plain.map((text) => make('li', {}, text))),
    ])] : []),
  );
}

/**
 * A table of slowdowns with bars.
 * @param {{title: string, symbol: string, hint: string, first: string, entries: [string, number, ?number][]}} content
 */
export function showBars(element, app, { title, symbol, hint, first, entries }) {
  const { rows, left } = bars(entries, MOST_ROWS);
  const cell = (row) => {
    const bar = make('i', { 'aria-hidden': 'true', class: row.value < NOISE ? 'noise' : null });
    bar.style.width = `${(100 * row.share).toFixed(1)}%`;
    return make('td', { class: 'whatif-bar' }, bar);
  };
  element.replaceChildren(
    make('header', {}, [make('h2', { title: symbolText(symbol) }, title), make('span', { class: 'quiet' }, hint)]),
    make('table', {}, [
      make('caption', { class: 'visually-hidden' }, `${title}: ${hint}`),
      make('thead', {}, make('tr', {}, [make('th', { scope: 'col' }, first), make('th', { scope: 'col', class: 'number' }, 'slowdown'), make('th', { 'aria-hidden': 'true' })])),
      make('tbody', {}, rows.map((row) => make('tr', {}, [
        make('th', { scope: 'row' }, row.rank === null ? row.name : rankLink(app, row.rank, row.name)),
        make('td', { class: 'number' }, `${ratio(row.value)} x`), cell(row),
      ]))),
    ]),
    ...(left ? [make('p', { class: 'map-note' }, `and ${left} more, none of them slower`)] : []),
  );
}

/** What each finding costs, in the words of the banner. @param {?Object} answer of what-if/costs; null: still loading */
export function showCosts(element, app, answer) {
  const head = make('header', {}, [make('h2', {}, answer?.heading ?? 'What findings cost, each in its own steps'), make('span', { class: 'quiet' }, 'the numbers of the banner and of the list of findings')]);
  if (!answer) return element.replaceChildren(head, make('p', { class: 'quiet', role: 'status' }, 'Comparing the ranks.'));
  const items = answer.costs.map(({ id, title, text }) => make('li', {}, [
    appLink(app, { page: 'overview', finding: id }, title), `: ${text}.`,
  ]));
  return element.replaceChildren(head, items.length ? make('ol', { class: 'whatif-cost-list' }, items) : make('p', {}, answer.none));
}

/** Causes, and by how much each lengthens a replayed step. @param {?Object} answer of what-if/causes; null: still computing */
export function showCauses(element, app, answer) {
  const head = make('header', {}, [make('h2', {}, 'Causes in the replay'), make('span', { class: 'quiet' }, 'found by comparing medians; each is replayed alone')]);
  if (!answer) return element.replaceChildren(head, make('p', { class: 'quiet', role: 'status' }, 'Replaying without each suspect.'));
  const items = answer.causes.map((cause) => make('li', {}, [
    make('strong', {}, cause.kind.replaceAll('_', ' ')), `: ${cause.text}. `,
    make('span', { class: 'quiet' }, `Replayed with it alone, all steps together are ${seconds(cause.cost_s)} longer on average. `),
    ...(app.computes && cause.ranks.length && cause.ranks.length <= MOST_LINKS ? ['Timeline of ', ...rankLinks(app, cause.ranks), '.'] : []),
  ]));
  return element.replaceChildren(
    head,
    items.length ? make('ol', { class: 'whatif-causes' }, items)
      : make('p', {}, 'No rank, stage, link or network stands out from its peers by more than their noise.'),
    make('p', { class: 'map-note' }, answer.not_identifiable),
  );
}
