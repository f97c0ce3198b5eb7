/** Which change of the job's parallelism would save most: a table, each change shown below when chosen. */
import { make } from '../lib/dom.mjs';
import { percent, seconds } from './messages.mjs';

const SHOWN = 8;

/** Changes that may save something, and a sentence. Pure. @param {object} answer of what-if/advice */
export function adviceRows({ advice, own, step_s: step, rest_s: rest }) {
  const rows = advice.filter((one) => one.saves + one.error > 0).slice(0, SHOWN);
  const most = Math.max(...rows.map((one) => one.saves), 1e-9);
  const text = `A step takes ${seconds(step)}, ${seconds(rest)} of it before and after the pipeline, which runs ${own}.`;
  const nothing = rows.some((one) => one.is_certain) ? '' : 'No change saves more than its prediction may be off.';
  return { rows: rows.map((one) => ({ ...one, share: Math.max(0, one.saves) / most })), text, nothing };
}

const changesJob = (pipeline) => Object.entries(pipeline).some(([name, value]) => name !== 'schedule' && value !== '');

/** Whether a shared file shows a change: it has other schedules for the changes of its own link alone. Pure. */
export const isInFile = (pipeline, own) => !changesJob(pipeline) && !changesJob(own);

/** @param {?object} answer null: still computing */
export function showAdvice(element, app, answer) {
  const head = make('header', {}, [make('h2', {}, 'Which change would save most'),
    make('span', { class: 'quiet' }, 'one change at a time, predicted from the times of this job')]);
  if (!answer) return element.replaceChildren(head, make('p', { class: 'quiet', role: 'status' }, 'Replaying other sizes and schedules.'));
  if (answer.reason) return element.replaceChildren(head, make('p', { class: 'quiet' }, `Not predicted: ${answer.reason}.`));
  const { rows, text, nothing } = adviceRows(answer);
  const change = (one) => {
    if (!one.pipeline || !(app.computes || isInFile(one.pipeline, app.view.pipeline))) return one.change;
    const button = make('button', { type: 'button', class: 'whatif-choose', title: 'Show it below' }, one.change);
    button.addEventListener('click', () => app.set({ pipeline: one.pipeline }));
    return button;
  };
  const bar = (one) => {
    const line = make('i', { 'aria-hidden': 'true', class: one.is_certain ? null : 'noise' });
    line.style.width = `${(100 * one.share).toFixed(1)}%`;
    return make('td', { class: 'whatif-bar' }, line);
  };
  const row = (one) => make('tr', {}, [
    make('th', { scope: 'row' }, change(one)), make('td', { class: 'number' }, percent(one.saves)), make('td', { class: 'number' }, `± ${percent(one.error)}`),
    make('td', { class: 'number' }, seconds(one.step_s)), make('td', {}, one.needs.join(', ')), bar(one),
  ]);
  return element.replaceChildren(
    head, make('p', { class: 'quiet' }, [text, nothing].filter(Boolean).join(' ')),
    make('div', { class: 'scroll' }, make('table', {}, [
      make('caption', { class: 'visually-hidden' }, 'Changes of the parallelism and what they would save'),
      make('thead', {}, make('tr', {}, [...['change', 'saves', 'may be off by', 'step', 'needs'].map((title, i) => make('th', { scope: 'col', class: i > 0 && i < 4 ? 'number' : null }, title)), make('th', { 'aria-hidden': 'true' })])),
      make('tbody', {}, rows.map(row)),
    ])),
    make('p', { class: 'map-note' }, answer.note));
}
