/** Tables and sentences of the page Experts. */
import { make } from '../lib/dom.mjs';
import { stepsText } from '../lib/value_text.mjs';
import { ASSUMPTION, pingPongContent, savingText } from './ping_pong.mjs';
import { balanceText, expertOf, furthest, holderText, layerText, milliseconds, percent, shownOf, times, whole } from './text.mjs';

const MOST_FURTHEST = 8;
const UNEVEN = 1.2;  // most tokens of an EP rank / mean: from here it costs time

const number = (text, className = '') => make('td', { class: `number ${className}` }, text);

const table = (label, titles, rows) => make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label }, make('table', {},
  make('thead', {}, make('tr', {}, titles.map((title) => (Array.isArray(title)
    ? make('th', { scope: 'col', class: 'number' }, title[0]) : make('th', { scope: 'col' }, title))))),
  make('tbody', {}, rows)));

const rankButton = (rank, choose, key) => make('button',
  { type: 'button', 'data-rank': rank, 'data-key': `${key} ${rank}`, on: { click: () => choose(rank) } }, `rank ${rank}`);

function panel(title, about, ...content) {
  return make('section', { class: 'panel', 'aria-label': title },
    make('header', {}, make('h2', {}, title), about ? make('span', { class: 'quiet' }, about) : []), ...content);
}

function bar(share) {
  const cell = make('td', { class: 'experts-bar' }, make('span', { class: 'experts-bar-fill' }));
  cell.firstChild.style.width = `${100 * Math.min(Math.max(share, 0), 1)}%`;
  return cell;
}

/** Experts that are furthest from the mean, as text: the map for those who cannot see it. */
export function furthestTable(data, choose) {
  const found = furthest(data, MOST_FURTHEST);
  if (!found.length) return make('p', { class: 'quiet' }, 'No expert gets more or fewer tokens than a router that chooses by chance would give it.');
  const rows = found.map(({ row, expert, at }) => {
    const chosen = expertOf(data.layers[row], expert);
    const button = make('button', { type: 'button', 'data-expert': chosen.join(','), 'data-key': `far ${chosen.join(' ')}`,
      on: { click: () => choose(chosen) } }, `${layerText(data.layers[row])}, expert ${expert}`);
    return make('tr', {}, make('td', {}, button), number(times(data.load[at])),
      number(`${whole(data.tokens[at])} tokens`), make('td', { class: 'quiet' }, holderText(data.holder[at], data.holders[at])));
  });
  return make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Furthest from the mean of their layer' },
    make('table', {}, make('caption', {}, 'Furthest from the mean of their layer'), make('tbody', {}, rows)));
}

/** How evenly ranks share the tokens, worst layers first. */
export function balancePanel({ balance, layers }, choose) {
  if (!balance.length) return panel('Balance of EP ranks', '', make('p', { class: 'quiet' }, balanceText(layers)));
  const most = Math.max(...balance.map(({ ratio }) => ratio - 1), UNEVEN - 1);
  const rows = [...balance].sort((a, b) => b.ratio - a.ratio || a.layer - b.layer || a.router - b.router).map((one) => make('tr', {},
    make('th', { scope: 'row' }, layerText(one)), number(times(one.ratio), one.ratio >= UNEVEN ? 'is-slow' : ''),
    make('td', {}, rankButton(one.most.rank, choose, `balance ${one.layer} ${one.name}`), one.most.num_ranks > 1 ? ` and ${one.most.num_ranks - 1} more` : ''),
    number(`${one.most.first} to ${one.most.last}`), number(percent(one.share)), number(percent(one.even)), bar((one.ratio - 1) / most)));
  return panel('Balance of EP ranks', 'tokens of the EP rank with most / mean of the EP ranks, mean over the steps; the others wait for it',
    table('Balance of EP ranks', ['', ['most / mean'], 'most tokens on', ['its experts'], ['its share'], ['even share'], ''], rows));
}

/** All-to-alls by rank. */
function timesPanel({ times: ranks, num_ranks: numRanks, read_steps: steps }, choose) {
  if (!ranks.length) {
    return panel('Dispatch and combine', '', make('p', { class: 'quiet' },
      'No all-to-all of a group of axis ep was recorded in these steps: the layout that the job states has no ep, or each rank holds all experts.'));
  }
  const rows = ranks.map((row) => make('tr', {}, make('th', { scope: 'row' }, rankButton(row.rank, choose, 'times')),
    number(row.stage === null ? '\u2013' : String(row.stage)), number(String(row.ep)), number(milliseconds(row.all_to_all_p50_ms)),
    number(milliseconds(row.all_to_all_p99_ms)), number(milliseconds(row.transfer_ms)), number(milliseconds(row.expert_ms)), number(whole(row.all_to_alls))));
  const about = [`all-to-alls of the groups of axis ep, waiting included; ${stepsText(steps)}`, 'slowest first', shownOf(ranks.length, numRanks, 'ranks')];
  return panel('Dispatch and combine', about.filter(Boolean).join('; '), table('Dispatch and combine',
    ['', ['stage'], ['ep'], ['median'], ['99 of 100'], ['transfer'], ['experts compute'], ['calls']], rows));
}

/** Where a step's time goes that better routing or more overlap would give back. */
export const rankPanels = (found, choose) => [
  panel('Without imbalance', '', make('p', { class: 'experts-why' }, savingText(found.saving)), found.saving ? make('p', { class: 'quiet experts-why' }, ASSUMPTION) : []),
  timesPanel(found, choose),
  panel('Ping-pong', 'overlap of attention and experts: while one micro-batch is with the experts, another is in attention', ...pingPongContent(found, table, number)),
];

export const nothing = () => make('section', { class: 'panel sentence' },
  make('p', {}, make('strong', {}, 'No load of experts is recorded. '),
    'Routers of Megatron-core, torchtitan and Hugging Face transformers are found by themselves. A router of your own takes one line, before the first step:'),
  make('pre', {}, make('code', {}, 'tracer.router(layer.gate, num_experts=64)')),
  make('p', {}, 'A model without experts has nothing to show here.'));
