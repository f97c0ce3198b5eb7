/** Parts of the Stuck page: the tree of waits, stacks by equal ranks, the table of ranks. */
import { make } from '../lib/dom.mjs';
import { lastTold } from '../lib/log_pane.mjs';

const seconds = (value) => `${value.toFixed(1)} s`;
const COLUMNS = [
  ['host', ({ host }) => host],
  ['process', ({ process }) => PROCESSES[process] ?? process],
  ['phase', ({ phase }) => phase],
  ['step', ({ step }) => step],
  ['waits in', (row) => row.in],
  ['no progress for', ({ quiet_s: quiet }) => quiet !== null && seconds(quiet)],
  ['heartbeat', ({ beat_s: beat }) => beat !== null && `${seconds(beat)} ago`],
  ['main thread', ({ frame }) => frame && make('code', {}, frame)],
];
const PROCESSES = { R: 'running', S: 'sleeping', D: 'in storage (D)', T: 'stopped (T)', t: 'traced (t)', Z: 'ended (Z)', gone: 'gone' };

/** The ranks that others wait for, with those that wait for them; without roots the waits one by one. */
export function waitTree({ tree, waits }) {
  if (!tree.length) return make('ul', { class: 'stuck-tree' }, waits.map(({ text }) => make('li', {}, text)));
  return make('ul', { class: 'stuck-tree' }, tree.map((branch) => branchItem(branch, true)));
}

function branchItem({ rank, op, branches }, isRoot = false) {
  const text = isRoot ? make('strong', { class: 'culprit' }, rank) : make('span', {}, `${rank}${op ? ` in ${op}` : ''}`);
  const below = branches.length
    ? make('ul', {}, branches.map((branch) => branchItem(branch))) : null;
  return make('li', {}, text, below ? [make('span', { class: 'quiet' }, ' is waited for by'), below] : []);
}

/** Ranks whose main threads stand at the same place, the fewest first. */
export function stackList(stacks) {
  return make('div', { class: 'stuck-stacks' }, stacks.map(({ ranks, num_ranks: count, activity, where, frames }, index) => make(
    'details', index === 0 ? { open: '' } : {},
    make('summary', {}, make('b', {}, ranks), ` (${count}), ${activity}: `, make('code', {}, where)),
    make('pre', {}, frames.join('\n')),
  )));
}

/** The last lines of the ranks' logs; a traceback opens to its whole text. */
export function lastLines(lines) {
  return make('ol', { class: 'stuck-lines' }, lines.map(({ who, level, text, where }) => {
    const shown = text.trimEnd().split('\n');
    const head = [make('b', {}, who), ' ', make('span', { class: 'quiet' }, where)];
    const last = make('code', { class: level === 'error' || level === 'fatal' ? 'is-error' : '' }, lastTold(shown));
    if (shown.length === 1) return make('li', {}, head, make('div', {}, last));
    return make('li', {}, make('details', {}, make('summary', {}, head, make('div', {}, last)),
      make('pre', {}, shown.join('\n'))));
  }));
}

/** One row per rank, those that are waited for first; a rank opens its timeline. Empty columns are left out. */
export function rankTable({ ranks }, app) {
  const columns = COLUMNS.filter(([, valueOf]) => ranks.some((row) => isKnown(valueOf(row))));
  const titles = ['rank', ...columns.map(([title]) => title)];
  const head = make('thead', {}, make('tr', {}, titles.map((title) => make('th', { scope: 'col' }, title))));
  const body = make('tbody', {}, ranks.map((row) => rankRow(row, columns, app)));
  return make('div', { class: 'scroll' }, make('table', {}, head, body));
}

const isKnown = (value) => value !== null && value !== '' && value !== false;

function rankRow(row, columns, app) {
  const open = make('button', { type: 'button', class: row.role === 'awaited' ? 'culprit' : '' }, `rank ${row.rank}`);
  open.addEventListener('click', () => app.open({ page: 'timeline', rank: row.rank }));
  const cells = columns.map(([, valueOf]) => valueOf(row)).map((value) => make('td', {}, isKnown(value) ? value : '-'));
  return make('tr', { class: row.role }, make('th', { scope: 'row' }, open), cells);
}
