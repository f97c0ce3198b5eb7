/** What the pipeline would take under other schedules: a table, the least device time first. */
import { make } from '../lib/dom.mjs';
import { seconds } from './messages.mjs';

const percent = (share) => `${(100 * share).toFixed(1)} %`;

/** Rows of the table and the sentences below it. Pure. @param {{schedules: object[]}} answer of what-if/schedules */
export function scheduleRows({ schedules }) {
  const known = schedules.filter((one) => one.span_s !== null);
  const cost = (one) => one.span_s * one.num_devices;
  const most = Math.max(...known.map(cost), 1e-12);
  const usual = known.find((one) => one.name === '1f1b');
  const rows = known.sort((a, b) => cost(a) - cost(b)).map((one) => ({
    name: one.name,
    span: seconds(one.span_s),
    between: `${seconds(one.low_s)} to ${seconds(one.high_s)}`,
    than: usual ? `${(one.span_s / usual.span_s).toFixed(2)} x` : '',
    bubble: percent(one.bubble),
    held: String(Math.max(...one.in_flight)),
    devices: String(one.num_devices),
    share: cost(one) / most,
  }));
  const assumed = new Map();
  for (const one of known) for (const text of one.assumptions) assumed.set(text, [...(assumed.get(text) ?? []), one.name]);
  const notes = [...assumed].map(([text, names]) => (names.length === known.length ? text : `${text} (${names.join(', ')})`));
  const impossible = schedules.filter((one) => one.reason).map((one) => `${one.name}: ${one.reason}.`);
  return { rows, notes, impossible };
}

/** @param {?Object} answer of what-if/schedules; null: still computing */
export function showSchedules(element, answer) {
  element.hidden = Boolean(answer?.reason);
  const head = make('header', {}, [make('h2', {}, 'Other schedules'),
    make('span', { class: 'quiet' }, 'the measured operations in the order of other pipeline schedules; least time of all devices first')]);
  if (!answer) return element.replaceChildren(head, make('p', { class: 'quiet', role: 'status' }, 'Replaying other schedules.'));
  if (answer.reason) return element.replaceChildren();
  const { rows, notes, impossible } = scheduleRows(answer);
  const titles = ['schedule', 'pipeline takes', '10 % to 90 % of the steps', 'of 1F1B', 'idle', 'micro-batches held', 'devices'];
  const cells = (row) => [row.span, row.between, row.than, row.bubble, row.held, row.devices].map((text) => make('td', { class: 'number' }, text));
  const bar = (row) => {
    const line = make('i', { 'aria-hidden': 'true', class: 'noise' });
    line.style.width = `${(100 * row.share).toFixed(1)}%`;
    return make('td', { class: 'whatif-bar' }, line);
  };
  return element.replaceChildren(
    head,
    make('div', { class: 'scroll' }, make('table', {}, [
      make('caption', { class: 'visually-hidden' }, 'Pipeline schedules and what they would take'),
      make('thead', {}, make('tr', {}, [...titles.map((title, i) => make('th', { scope: 'col', class: i ? 'number' : null }, title)), make('th', { 'aria-hidden': 'true' })])),
      make('tbody', {}, rows.map((row) => make('tr', {}, [make('th', { scope: 'row' }, row.name), ...cells(row), bar(row)]))),
    ])),
    ...impossible.map((text) => make('p', { class: 'map-note' }, `Not possible: ${text}`)),
    make('details', { class: 'whatif-notes' }, [
      make('summary', {}, `${notes.length} assumptions`),
      make('ul', {}, notes.map((text) => make('li', {}, text))),
    ]),
  );
}
