/** The tables of a self-test: tests, devices, groups. */
import { make } from '../lib/dom.mjs';
import { amount, sizeText } from './cells.mjs';

const SLOW = 0.9;
const MOST_ROWS = 128;
/** Less than this share of the median is marked. */
export const TESTS = {
  matmul: 'matrix product', memory: 'memory copy', h2d: 'host to device', d2h: 'device to host',
  mesh: 'pairs inside a host', pair: 'pairs of hosts', halves: 'all-reduce of a part', all_reduce: 'all-reduce of all', traffic: 'ordinary steps, hosts',
};

/** `titles`: of columns; those of numbers in an array of their own. */
const table = (titles, rows) => make('div', { class: 'scroll' }, make('table', {},
  make('thead', {}, make('tr', {}, titles.map((title) => (Array.isArray(title)
    ? make('th', { scope: 'col', class: 'number' }, title[0]) : make('th', { scope: 'col' }, title))))),
  make('tbody', {}, rows)));
const number = (text, className = '') => make('td', { class: `number ${className}` }, text);
const percent = (ratio) => `${Math.round(100 * ratio)} %`;
const mark = (ratio) => (ratio < SLOW ? 'is-slow' : '');

/** One row per test and size. */
export function testTable({ tests }) {
  return table(['test', ['size'], ['measured'], ['median'], ['lowest'], ['of the median'], 'which'], tests.map((test) => make('tr', {},
    make('th', { scope: 'row' }, TESTS[test.test] ?? test.test),
    number(sizeText(test.num_bytes)), number(String(test.number)),
    number(`${amount(test.median)} ${test.unit}`), number(`${amount(test.least)} ${test.unit}`),
    number(percent(test.least / test.median), mark(test.least / test.median)), make('td', {}, test.slowest))));
}

/** Rows that fit a table, the slowest first where some are left out. @returns {{rows: Object[], about: string}} */
export function shownRows(rows, slownessOf, what) {
  if (rows.length <= MOST_ROWS) return { rows, about: '' };
  const sorted = [...rows].sort((a, b) => slownessOf(a) - slownessOf(b));
  return { rows: sorted.slice(0, MOST_ROWS), about: `the ${MOST_ROWS} slowest of ${rows.length.toLocaleString('en')} ${what}` };
}

/** The least that a rank reaches of the median, in any test. */
export const leastRatio = ({ values }) => Math.min(...Object.values(values).map(({ ratio }) => ratio));

/** One row per rank; a click selects it. */
export function deviceTable(devices, app) {
  const names = ['matmul', 'memory', 'h2d', 'd2h'].filter((name) => devices.some(({ values }) => values[name]));
  const unitOf = (name) => devices.find(({ values }) => values[name]).values[name].unit;
  const cell = (value) => (value
    ? number(`${amount(value.value)} (${percent(value.ratio)})`, mark(value.ratio)) : number('not measured', 'quiet'));
  return table(['rank', 'host', 'device', ...names.map((name) => [`${TESTS[name]}, ${unitOf(name)}`])], devices.map((row) => make('tr', {},
    make('th', { scope: 'row' }, make('button', { type: 'button', value: row.rank, 'aria-pressed': String(app.view.rank === row.rank), on: { click: () => app.set({ rank: row.rank }) } }, `rank ${row.rank}`)),
    make('td', {}, row.host), make('td', {}, row.device), names.map((name) => cell(row.values[name])))));
}

/** One row per group and size. */
export function groupTable(groups) {
  return table(['test', 'ranks', ['size'], ['bus bandwidth'], ['median time'], ['repetitions']], groups.map((group) => make('tr', {},
    make('th', { scope: 'row' }, TESTS[group.test] ?? group.test), make('td', {}, group.members),
    number(sizeText(group.num_bytes)), number(`${amount(group.value)} ${group.unit}`),
    number(`${amount(group.milliseconds)} ms`), number(String(group.samples)))));
}
