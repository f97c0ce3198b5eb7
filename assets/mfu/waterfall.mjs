/** From the peak of the devices down to the measured MFU: a row for each part, with what it leads to. */
import { make } from '../lib/dom.mjs';
import { milliseconds, percent } from '../lib/value_text.mjs';
import { waterfallRows } from './geometry.mjs';
import { aboutText, operationsText, operationsTitle, rankLabel, rankText } from './text.mjs';

const number = (text) => make('td', { class: 'number' }, text);

function bar({ name, from, to }) {
  const fill = make('i', { class: `mfu-fill mfu-${name}` });
  fill.style.left = `${(100 * from).toFixed(2)}%`;
  fill.style.width = `${(100 * (to - from)).toFixed(2)}%`;
  return make('td', { class: 'mfu-bar', 'aria-hidden': 'true' }, make('span', {}, fill));
}

/** The step in which the part takes longest, and the ranks that have most of it; of waiting, those that are waited for. */
function leads({ name, worst_step: step, ranks }, app) {
  const open = (patch) => () => app.open({ page: 'timeline', ...patch });
  const key = (what) => ({ type: 'button', value: `${name} ${what}` });
  return make('td', { class: 'mfu-leads' }, [
    make('button', { ...key('step'), title: 'the step in which it takes longest: show it on the timeline', on: { click: open({ steps: [step, step] }) } },
      `step ${step.toLocaleString('en')}`),
    ...ranks.map((one) => make('button', {
      ...key(one.rank), title: `${rankText(name, one)}: show it on the timeline`, on: { click: open({ rank: one.rank, ranks: [] }) },
    }, rankLabel(name, one))),
  ]);
}

function row(one, app) {
  const isPart = one.ranks !== undefined;
  return make('tr', { class: isPart ? null : 'mfu-end' }, [
    make('th', { scope: 'row', title: one.meaning }, one.title, isPart && one.operations.length
      ? make('span', { class: 'mfu-operations quiet', title: operationsTitle(one.operations) }, operationsText(one.operations)) : []), bar(one), number(percent(one.share)),
    number(isPart ? milliseconds(one.ms) : ''), isPart ? leads(one, app) : make('td'),
  ]);
}

/** @param {{waterfall: Object, why: string}} answer of api/run/RUN/mfu */
export function waterfallPanel({ waterfall, why }, app, peakField) {
  const notes = [...waterfall.notes, waterfall.why_no_mfu].filter(Boolean);
  return make('section', { class: 'panel mfu-waterfall', 'aria-label': 'Where the time of the devices goes' }, [
    make('header', {}, [make('h2', {}, 'Where the time of the devices goes'), make('span', { class: 'quiet' }, aboutText(waterfall, why)), peakField]),
    make('div', { class: 'scroll' }, make('table', {}, [
      make('thead', {}, make('tr', {}, [
        make('th', { scope: 'col' }, 'part'), make('th', { 'aria-hidden': 'true' }), make('th', { scope: 'col', class: 'number' }, 'share'),
        make('th', { scope: 'col', class: 'number' }, 'of a step'), make('th', { scope: 'col' }, 'longest in, most on'),
      ])),
      make('tbody', {}, waterfallRows(waterfall).map((one) => row(one, app))),
    ])),
    ...notes.map((text) => make('p', { class: 'mfu-note quiet' }, text)),
  ]);
}
