/** Parts of the Stuck page: the last lines, the table of ranks, commands. */
import { make } from '../lib/dom.mjs';
import { lastTold } from '../lib/log_pane.mjs';
import { copyText } from '../lib/page/dialogs.mjs';
import { frameParts } from './messages.mjs';

const COPIED_MS = 1500;

const seconds = (value) => `${value.toFixed(1)} s`;
const COLUMNS = [
  ['waits in', (row) => row.in],
  ['process', ({ process }) => PROCESSES[process] ?? process],
  ['main thread', ({ frame }) => frame && frame !== 'unknown' && threadText(frame)],
  ['no progress for', ({ quiet_s: quiet }) => quiet !== null && seconds(quiet)],
  ['heartbeat', ({ beat_s: beat }) => beat !== null && `${seconds(beat)} before`],
  ['step', ({ step }) => step],
  ['phase', ({ phase }) => phase],
  ['host', ({ host }) => host],
];
const PROCESSES = {
  R: 'running', S: 'sleeping', D: 'in the kernel (D)', T: 'stopped (T)', t: 'traced (t)', Z: 'ended (Z)', gone: 'gone',
};

/** The last lines of the ranks' logs; a traceback opens to its whole text. */
export function lastLines(lines) {
  return make('ol', { class: 'stuck-lines', tabindex: 0, 'aria-label': 'Last lines of logs', 'data-key': 'lines' }, lines.map(({ who, level, text, where }) => {
    const shown = text.trimEnd().split('\n');
    const head = [make('b', {}, who), ' ', make('span', { class: 'quiet' }, where)];
    const last = make('code', { class: level === 'error' || level === 'fatal' ? 'is-error' : '' }, lastTold(shown));
    if (shown.length === 1) return make('li', {}, head, make('div', {}, last));
    const key = `line ${who} ${where}`;
    return make('li', {}, make('details', { 'data-key': key }, make('summary', { 'data-key': `${key} head` }, head, make('div', {}, last)),
      make('pre', { tabindex: 0 }, shown.join('\n'))));
  }));
}

/** One row per rank, those that are waited for first; a rank opens its timeline. Empty columns are left out. */
export function rankTable({ ranks }, app) {
  const columns = COLUMNS.filter(([, valueOf]) => ranks.some((row) => isKnown(valueOf(row))));
  const titles = ['rank', ...columns.map(([title]) => title)];
  const head = make('thead', {}, make('tr', {}, titles.map((title) => make('th', { scope: 'col' }, title))));
  const body = make('tbody', {}, ranks.map((row) => rankRow(row, columns, app)));
  return make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Ranks', 'data-key': 'ranks' }, make('table', {}, head, body));
}

/** One row per collective or message that has not completed, with the ranks that have called it and those that have not. */
export function requestTable(requests) {
  const isWithUnknown = requests.some(({ unknown }) => unknown);
  const titles = ['group', 'request', 'posted by', 'not posted by', ...(isWithUnknown ? ['not known of'] : []), 'open for'];
  const head = make('thead', {}, make('tr', {}, titles.map((title) => make('th', { scope: 'col' }, title))));
  const body = make('tbody', {}, requests.map((row) => {
    const lacking = make('td', {}, row.not_posted ? make('strong', {}, row.not_posted) : '\u2013');
    const unknown = isWithUnknown ? make('td', {}, row.unknown || '\u2013') : [];
    return make('tr', {}, make('th', { scope: 'row' }, row.group), make('td', {}, row.request),
      make('td', {}, row.posted), lacking, unknown, make('td', {}, row.for_s === null ? '\u2013' : seconds(row.for_s)));
  }));
  return make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Open requests', 'data-key': 'requests' }, make('table', {}, head, body));
}

function threadText(frame) {
  const [name, place] = frameParts(frame);
  return make('span', { title: place }, make('code', {}, name), make('span', { class: 'quiet stuck-file' }, ` ${place}`));
}

const isKnown = (value) => value !== null && value !== '' && value !== false && value !== undefined;

function rankRow(row, columns, app) {
  const look = row.role === 'awaited' ? 'culprit' : '';
  const name = `rank ${row.rank}`;
  const open = app.roles ? make('span', { class: look }, name)
    : make('button', { type: 'button', class: look, title: `Open ${name} in the timeline`, 'data-key': name }, name);
  if (!app.roles) open.addEventListener('click', () => app.open({ page: 'timeline', rank: row.rank }));
  const cells = columns.map(([, valueOf]) => valueOf(row)).map((value) => make('td', {}, isKnown(value) ? value : '\u2013'));
  return make('tr', { class: row.role }, make('th', { scope: 'row' }, open), cells);
}

/** What to run where, each with a button that copies it. */
export function commandList(commands) {
  return make('ul', { class: 'stuck-commands' }, commands.map(({ what, command }) => make('li', {},
    make('span', {}, what), make('div', {}, make('code', {}, command), copyButton(command)))));
}

function copyButton(text) {
  const button = make('button', { type: 'button', 'aria-label': `Copy ${text}`, 'data-key': `copy ${text}` }, 'Copy');
  button.addEventListener('click', async () => {
    button.textContent = (await copyText(text)) ? 'Copied' : 'Select it by hand';
    setTimeout(() => { button.textContent = 'Copy'; }, COPIED_MS);
  });
  return button;
}
