/** An answer as a table with pages of 200 rows. */
import { make } from '../lib/dom.mjs';
import { formatUrl } from '../lib/view_state.mjs';
import { cell, isNumber, rankOf } from './cell_text.mjs';

export const ROWS_A_PAGE = 200;

/** View that a row links to: the timeline of its rank, at its step if the row has one. */
export function timelineView(view, columns, row, rank) {
  const stepColumn = columns.findIndex((column) => column.name === 'step' && column.kind === 'int');
  const step = stepColumn < 0 ? null : row[stepColumn];
  const steps = Number.isSafeInteger(step) && step >= 0 ? [step, step] : view.steps;
  return { ...view, page: 'timeline', rank, ranks: [], steps, t: null, q: null, sql: null, args: {} };
}

function bodyCell(app, columns, row, index) {
  const column = columns[index];
  const value = row[index];
  const { text, title } = cell(column, value);
  const made = make('td', { class: isNumber(column) ? 'number' : 'text', title });
  const rank = rankOf(column, value);
  if (rank === null) {
    made.textContent = text;
    if (value === null) made.classList.add('faint');
  } else {
    const view = timelineView(app.view, columns, row, rank);
    const link = make('a', { href: formatUrl(view, app.base), text, title: `Timeline of rank ${rank}` });
    link.addEventListener('click', (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      app.open(view);
    });
    made.append(link);
  }
  return made;
}

/** @param {{columns: Object[], rows: any[][]}} answer @param {Object<string, string>} about by column */
export function answerTable(app, answer, about) {
  const { columns, rows } = answer;
  const head = make('tr', {}, columns.map((column) => make('th', {
    scope: 'col', class: isNumber(column) ? 'number' : 'text', text: column.name, title: about[column.name] ?? null,
  })));
  const body = make('tbody');
  const table = make('table', { class: 'answer' }, [make('thead', {}, [head]), body]);
  const rowRange = make('span', { class: 'quiet', role: 'status' });
  const previous = make('button', { type: 'button', text: 'Previous' });
  const next = make('button', { type: 'button', text: 'Next' });
  let first = 0;
  const show = (firstRow) => {
    first = firstRow;
    const last = Math.min(first + ROWS_A_PAGE, rows.length);
    body.replaceChildren(...rows.slice(first, last).map((row) => make(
      'tr', {}, row.map((_, index) => bodyCell(app, columns, row, index)))));
    rowRange.textContent = `rows ${(first + 1).toLocaleString('en')} to ${last.toLocaleString('en')}`;
    previous.disabled = first === 0;
    next.disabled = last === rows.length;
  };
  previous.addEventListener('click', () => show(first - ROWS_A_PAGE));
  next.addEventListener('click', () => show(first + ROWS_A_PAGE));
  show(0);
  const scroll = make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Answer' }, [table]);
  if (rows.length <= ROWS_A_PAGE) return [scroll];
  return [scroll, make('div', { class: 'pager' }, [previous, rowRange, next])];
}
