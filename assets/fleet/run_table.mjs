/** The table of runs on the page Fleet: sorted by a column, a page at a time. */
import { make } from '../lib/dom.mjs';
import { panel } from './panels.mjs';
import { count, day, duration, hours, NONE, percent, runs, slowdown } from './text.mjs';

const COLUMNS = [
  { key: 'started_ms', title: 'Began', text: (row) => day(row.started_ms) },
  { key: 'model', title: 'Model', text: (row) => row.model || NONE },
  { key: 'ranks', title: 'Ranks', number: true, text: (row) => count(row.ranks) },
  { key: 'hosts', title: 'Hosts', number: true, text: (row) => (row.hosts ? count(row.hosts) : NONE) },
  { key: 'steps', title: 'Steps', number: true, text: (row) => count(row.steps) },
  { key: 'step_ms', title: 'Step time', number: true, text: (row) => duration(row.step_ms) },
  { key: 'mfu', title: 'MFU', number: true, text: (row) => percent(row.mfu) },
  { key: 'goodput', title: 'Goodput', number: true, text: (row) => percent(row.goodput) },
  { key: 'S', title: 'S', number: true, text: (row) => slowdown(row.S), about: (row) => row.no_S },
  { key: 'hours', title: 'Rank-hours', number: true, text: (row) => hours(row.hours) },
  { key: 'lost', title: 'Lost', number: true, text: (row) => hours(row.lost) },
  { key: 'share', title: 'Lost share', number: true, text: (row) => percent(row.share) },
];
const ASCENDING_FIRST = ['run', 'model'];

/** @param {Object} answer @param {{sort: string, dir: string}} order @param {Function} choose of a patch of the state */
export function runTable(answer, order, choose, runLink) {
  const heading = ({ key, title, number }) => make('th', {
    scope: 'col', class: number ? 'number' : '', 'aria-sort': order.sort === key ? { asc: 'ascending', desc: 'descending' }[order.dir] : null,
  }, make('button', { type: 'button', 'data-key': `sort ${key}`, on: { click: () => choose({ sort: key, dir: nextDirection(key, order), page: '' }) } },
    title, order.sort === key ? { asc: ' \u2191', desc: ' \u2193' }[order.dir] : ''));
  const head = make('tr', {}, heading({ key: 'run', title: 'Run' }), COLUMNS.map(heading), heading({ key: 'num_findings', title: 'Findings' }));
  const rows = answer.rows.map((row) => make('tr', {},
    make('th', { scope: 'row' }, runLink(row.run, null, row.run)),
    COLUMNS.map((column) => make('td', { class: column.number ? 'number' : 'text', 'data-title': column.title, title: column.about?.(row) || null }, column.text(row))),
    findingsCell(row, runLink)));
  const scroll = make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Runs' }, make('table', { class: 'fleet-table' }, make('thead', {}, head), make('tbody', {}, rows)));
  return panel('Runs', runs(answer.fleet.num_runs), scroll, ...pages(answer, choose));
}

/** A second click on a column turns its order round. */
export function nextDirection(key, order) {
  if (order.sort === key) return order.dir === 'asc' ? 'desc' : 'asc';
  return ASCENDING_FIRST.includes(key) ? 'asc' : 'desc';
}

function findingsCell(row, runLink) {
  if (!row.judged && !row.finding) return make('td', { class: 'faint', 'data-title': 'Findings' }, 'not judged');
  if (!row.finding) return make('td', { class: 'quiet', 'data-title': 'Findings' }, 'none');
  const more = row.num_findings > 1 ? ` +${row.num_findings - 1}` : '';
  return make('td', { class: 'fleet-finding', 'data-title': 'Findings' }, runLink(row.run, row.finding.id, row.finding.title), more);
}

function pages({ page, num_pages: numPages }, choose) {
  if (numPages < 2) return [];
  const to = (text, next) => make('button', { type: 'button', 'data-key': text, disabled: next < 0 || next >= numPages, on: { click: () => choose({ page: next ? String(next) : '' }) } }, text);
  return [make('p', { class: 'fleet-pages' }, to('Previous', page - 1), make('span', {}, `page ${page + 1} of ${numPages}`), to('Next', page + 1))];
}
