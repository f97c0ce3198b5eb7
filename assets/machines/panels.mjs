/** Tables and lines of the page Machines. */
import { readTheme } from '../lib/canvas/canvas_theme.mjs';
import { make } from '../lib/dom.mjs';
import { linePoints, valueText } from '../lib/canvas/samples.mjs';
import { cellColours } from './host_map.mjs';
import { furthestCells, rangeText, shownText } from './messages.mjs';

const MOST_FURTHEST = 8;
const MOST_IN_LIST = 200;  // hosts; of more, one writes the name
const LINE = { width: 150, height: 34 };
const SVG = 'http://www.w3.org/2000/svg';

const button = (text, key, act, attributes = {}) => make('button', {
  type: 'button', class: 'link', 'data-key': key, ...attributes, on: { click: act },
}, text);

/** Metrics down, hosts across: for few hosts. @param {import('./geometry.mjs').MapData} data */
export function hostTable(data, choose) {
  const theme = readTheme();
  const count = data.columns.length;
  const head = make('tr', {}, make('th', { scope: 'col' }, 'metric'),
    data.hosts.map((host) => make('th', { scope: 'col', class: 'number' }, button(host || 'unknown', `host ${host}`, () => choose(host)))));
  const rows = data.columns.map((column, number) => make('tr', {},
    make('th', { scope: 'row', title: column.doc }, column.title),
    data.hosts.map((_, row) => {
      const at = row * count + number;
      const colours = cellColours(data.code[at], theme);
      const cell = make('td', { class: 'number', title: rangeText(data, at, column) }, shownText(data, at, column));
      if (colours) Object.assign(cell.style, { background: colours.back, color: colours.ink });
      return cell;
    })));
  return make('div', { class: 'table-scroll machines-table', tabindex: 0, role: 'region', 'aria-label': 'Metrics by host' },
    make('table', {}, make('thead', {}, head), make('tbody', {}, rows)));
}

/** The cells that differ most from the median host, as text: the map for those who cannot see it. */
export function furthestTable(data, choose) {
  const cells = furthestCells(data, MOST_FURTHEST);
  if (!cells.length) return make('p', { class: 'quiet' }, data.compares ? 'No host differs from the others by more than noise.' : '');
  const rows = cells.map(({ host, row, column }) => {
    const { title, unit } = data.columns[column];
    return make('tr', {}, make('td', {}, button(host || 'unknown', `far ${host} ${column}`, () => choose(host))),
      make('td', {}, title), make('td', { class: 'number' }, shownText(data, row * data.columns.length + column, data.columns[column])),
      make('td', { class: 'number quiet' }, `median host ${valueText(data.medians[column], unit)}`));
  });
  return make('div', { class: 'table-scroll', tabindex: 0, role: 'region', 'aria-label': 'Furthest from the median host' },
    make('table', {}, make('caption', {}, 'Furthest from the median host'), make('tbody', {}, rows)));
}

function hostList(chosen, hosts, choose) {
  return make('select', { 'aria-label': 'Host', 'data-key': 'host', on: { change: (event) => choose(event.target.value) } },
    hosts.map((host) => make('option', { value: host, selected: host === chosen }, host || 'unknown')));
}

/** A field to write the name of one of many hosts. */
function hostField(chosen, hosts, choose) {
  const take = ({ target }) => {
    const isKnown = hosts.includes(target.value);
    target.setCustomValidity(isKnown ? '' : `No host has this name; the first is ${hosts[0]}.`);
    if (isKnown) choose(target.value);
    else target.reportValidity();
  };
  return make('input', { 'aria-label': 'Host', 'data-key': 'host', value: chosen, spellcheck: 'false', on: { change: take } });
}

/** One host over time: a line for each device next to its ranks. */
export function hostLines(found, app, hosts, choose) {
  const picker = hosts.length > MOST_IN_LIST ? hostField(found.host, hosts, choose) : hostList(found.host, hosts, choose);
  const head = make('header', {}, make('h2', {}, 'One host over time'), picker,
    make('span', { class: 'quiet' }, `a point for ${found.bin_s.toLocaleString('en')} s`));
  if (!found.lines.length) return [head, make('p', { class: 'quiet' }, 'Nothing but zeros was recorded of this host.')];
  const times = found.lines.flatMap((line) => line.at_s);
  const extent = [Math.min(...times), Math.max(...times)];
  const groups = new Map();
  for (const line of found.lines) groups.set(line.metric, [...(groups.get(line.metric) ?? []), line]);
  return [head, make('div', { class: 'machines-lines' }, [...groups.values()].map((lines) => make('section', { 'aria-label': lines[0].title },
    make('h3', { title: lines[0].doc }, lines[0].title),
    lines.map((line) => sparkline(line, extent, app)))))];
}

function sparkline(line, extent, app) {
  const known = line.value.filter((value) => value !== null);
  const [low, high, last] = [Math.min(...known), Math.max(...known), known.at(-1)];
  const text = `${valueText(low, line.unit)} to ${valueText(high, line.unit)}, last ${valueText(last, line.unit)}`;
  const who = line.ranks.length === 1
    ? button(`rank ${line.ranks[0]}`, `line ${line.metric} ${line.device} ${line.ranks[0]}`, () => app.open({ page: 'timeline', rank: line.ranks[0] }), { title: `${line.who}: show this rank in the timeline` })
    : make('span', {}, line.who);
  return make('div', { class: 'machines-line' }, who, curve(line, extent, `${line.title} of ${line.who}: ${text}`),
    make('span', { class: 'number' }, valueText(last, line.unit)),
    line.num_resets ? make('span', { class: 'quiet', title: 'the counter began again' }, `${line.num_resets} reset${line.num_resets > 1 ? 's' : ''}`) : []);
}

function curve(line, extent, label) {
  const svg = document.createElementNS(SVG, 'svg');
  for (const [name, value] of Object.entries({ viewBox: `0 0 ${LINE.width} ${LINE.height}`, role: 'img', 'aria-label': label, preserveAspectRatio: 'none' })) svg.setAttribute(name, value);
  for (const part of linePoints(line.at_s, line.value, extent, LINE.width, LINE.height)) {
    const shape = document.createElementNS(SVG, 'polyline');
    const points = part.length > 1 ? part : [part[0], [part[0][0] + 1, part[0][1]]];
    shape.setAttribute('points', points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' '));
    svg.append(shape);
  }
  return svg;
}

/** What changed, in order of time. */
export function changesTable(changes, isPart, app) {
  const head = make('header', {}, make('h2', {}, 'What changed'),
    make('span', { class: 'quiet' }, isPart ? 'from step 1 on; of so many hosts only in metrics that show a fault by themselves'
      : 'from step 1 on: the start of a job changes everything'));
  if (!changes.length) return [head, make('p', { class: 'quiet' }, 'Nothing changed by more than noise.')];
  const rows = changes.map((change, i) => make('tr', {},
    make('td', { class: 'number' }, button(change.step.toLocaleString('en'), `step ${i}`, () => app.open({
      page: 'timeline', steps: [Math.max(change.step - 1, 0), change.step + 1], rank: change.ranks[0] ?? app.view.rank,
    }), { title: 'Show this step in the timeline' })),
    make('td', {}, change.text), make('td', { class: 'number' }, change.before), make('td', { class: 'number' }, change.after),
    make('td', {}, change.ranks.length ? `rank${change.ranks.length > 1 ? 's' : ''} ${change.ranks.join(', ')}` : '')));
  return [head, make('div', { class: 'table-scroll machines-changes', tabindex: 0, role: 'region', 'aria-label': 'What changed' },
    make('table', {}, make('thead', {}, make('tr', {}, ['step', 'what', 'before', 'after', 'of'].map((text) => make('th', { scope: 'col', class: ['before', 'after'].includes(text) ? 'number' : null }, text)))),
      make('tbody', {}, rows)))];
}

/** What could not be read: first what is there, then what the machines do not have. */
export function unreadableList(unreadable) {
  const head = make('header', {}, make('h2', {}, 'What was not readable'));
  const there = unreadable.filter((one) => one.is_there);
  const absent = unreadable.filter((one) => !one.is_there);
  const where = ({ hosts, num_hosts: count }) => (count > 5 ? `on ${count.toLocaleString('en')} hosts` : `on ${hosts.join(', ')}`);
  return [head,
    there.length ? make('ul', {}, there.map((one) => make('li', {}, `${one.what}: ${one.reason} (${where(one)}). `, one.remedy)))
      : make('p', { class: 'quiet' }, 'Everything that these machines have could be read.'),
    absent.length ? make('details', { 'data-key': 'absent' }, make('summary', { 'data-key': 'absent head' }, `${absent.length} that the machines do not have`),
      make('ul', { class: 'quiet' }, absent.map((one) => make('li', {}, `${one.what}: ${one.reason} (${where(one)})`)))) : ''];
}
