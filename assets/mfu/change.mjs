/** Which parts take longer than before, and since when: bars around zero with their 95 % intervals. */
import { make } from '../lib/dom.mjs';
import { milliseconds, stepsText } from '../lib/value_text.mjs';
import { changeBars } from './geometry.mjs';
import { signed, unitText } from './text.mjs';

const number = (text) => make('td', { class: 'number' }, text);

function placed(kind, from, to) {
  const line = make('i', { class: kind });
  line.style.left = `${(100 * from).toFixed(2)}%`;
  line.style.width = `${(100 * (to - from)).toFixed(2)}%`;
  return line;
}

function bar({ from, to, low, high }, change, zero) {
  const kind = change.low > 0 ? 'mfu-more' : change.high < 0 ? 'mfu-less' : 'mfu-noise';
  return make('td', { class: 'mfu-bar', 'aria-hidden': 'true' }, make('span', {}, [
    placed(kind, from, to), placed('mfu-between', low, high), placed('mfu-zero', zero, zero),
  ]));
}

function row(change, place, zero) {
  return make('tr', { class: change.name === 'all' ? 'mfu-end' : null }, [
    make('th', { scope: 'row' }, change.title), bar(place, change, zero),
    make('td', { class: `number${change.low > 0 ? ' is-slow' : ''}` }, signed(change.points)),
    number(`${signed(change.low)} to ${signed(change.high)}`), number(milliseconds(change.before_ms)), number(milliseconds(change.after_ms)),
  ]);
}

function table(comparison) {
  const changes = [comparison.lost, ...comparison.changes];
  const { zero, bars } = changeBars(changes);
  const titles = [['lost', unitText(comparison)], ['95 % interval'], ['before', stepsText(comparison.before)], ['after', stepsText(comparison.after)]];
  return make('div', { class: 'scroll' }, make('table', {}, [
    make('thead', {}, make('tr', {}, [
      make('th', { scope: 'col' }, 'part'), make('th', { 'aria-hidden': 'true' }),
      ...titles.map(([text, title]) => make('th', { scope: 'col', class: 'number', title }, text)),
    ])),
    make('tbody', {}, changes.map((change, i) => row(change, bars[i], zero))),
  ]));
}

/** Buttons to the ranks that the parts that grew lead to, and to both windows. */
function leads({ comparison, causes }, app) {
  const ranks = [...new Set(causes.flatMap((cause) => cause.ranks))];
  return make('p', { class: 'mfu-leads' }, [
    ...[['before', comparison.before], ['after', comparison.after]].map(([what, steps]) => make('button', {
      type: 'button', value: `change ${what}`, title: 'show the waterfall of these steps', on: { click: () => app.set({ steps }) },
    }, stepsText(steps))),
    ...ranks.map((rank) => make('button', {
      type: 'button', value: `change ${rank}`, title: 'show this rank on the timeline', on: { click: () => app.open({ page: 'timeline', rank, ranks: [], steps: comparison.after }) },
    }, `rank ${rank}`)),
  ]);
}

/** @param {{sentence: string, comparison: ?Object, causes: Object[]}} answer of api/run/RUN/mfu/change */
export function changePanel(answer, app, fields, role = null) {
  const { sentence, comparison } = answer;
  return make('section', { class: 'panel mfu-change', 'aria-label': 'What changed' }, [
    make('header', {}, [make('h2', {}, 'What changed'), make('span', { class: 'quiet' },
      comparison ? `${unitText(comparison)} lost to each part, largest first` : ''), fields]),
    make('p', { class: 'mfu-sentence', role }, sentence),
    ...(comparison ? [leads(answer, app), table(comparison)] : []),
  ]);
}
