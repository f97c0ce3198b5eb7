/** The query page: saved queries on the left, the chosen query and its answer on the right. */
import { make } from '../lib/dom.mjs';
import { answerPanel } from './answer_panel.mjs';
import { command, describe, missing, placeholder, quotesOfCode, request, values } from './saved_query.mjs';

const FIRST = 'slowest_ranks';
const FOLLOW_MS = 300;
const SQL_EXAMPLE = "SELECT rank, count(*) AS spans, sum(dur_ns) AS time_ns\nFROM spans WHERE kind = 'tp_comm'\n"
  + 'GROUP BY rank ORDER BY time_ns DESC';

/** @param {HTMLElement} container @param {import('../lib/app.mjs').App} app */
export function mount(container, app, options) {
  const byName = Object.fromEntries(options.questions.map((query) => [query.name, query]));
  const list = make('nav', { class: 'panel questions', 'aria-label': 'Saved queries' });
  const form = make('section', { class: 'panel asked' });
  const answer = answerPanel(app);
  container.replaceChildren(list, make('div', { class: 'query-main' }, [form, answer.element]));
  let shown = null;   // the query in the form, as JSON
  let running = null; // the query that was run last, as JSON
  const confirmed = new Set();  // SQL that the user has run here; SQL from a link is only shown
  let timer = 0;

  const chosen = () => (app.view.sql !== null ? null : byName[app.view.q ?? FIRST] ?? null);
  const run = (given, savedQuery, sql) => {
    running = JSON.stringify([app.view.run, savedQuery?.name, given, sql]);
    const params = savedQuery ? request(savedQuery, given) : {};
    answer.run(params, savedQuery, savedQuery ? null : sql, command(options.folder, savedQuery, given, sql));
  };

  function showSavedQuery(savedQuery) {
    const fields = make('form', { class: 'parameters' });
    const given = values(savedQuery, app.view, options.t0);
    for (const parameter of savedQuery.parameters) {
      const input = make('input', {
        name: parameter.name, value: given[parameter.name] ?? '', placeholder: placeholder(parameter),
        inputmode: parameter.type === 'text' ? 'text' : 'decimal', autocomplete: 'off', spellcheck: 'false',
      });
      fields.append(make('label', { title: describe(parameter) }, [
        make('span', { class: 'quiet', text: parameter.name }), input]));
    }
    fields.append(make('button', { class: 'primary', type: 'submit', text: 'Run', title: 'Ctrl+Enter' }));
    fields.addEventListener('submit', (event) => {
      event.preventDefault();
      const args = Object.fromEntries([...new FormData(fields)].filter(([, value]) => value.trim() !== ''));
      running = null;
      app.set({ q: savedQuery.name, sql: null, args }, { push: true });
    });
    const columns = make('dl', {}, savedQuery.columns.flatMap(([name, about]) => [
      make('dt', { text: name }), make('dd', { text: quotesOfCode(about) })]));
    const parameters = make('dl', {}, savedQuery.parameters.flatMap((p) => [
      make('dt', { text: p.name }),
      make('dd', { text: describe(p) })]));
    const more = make('details', { class: 'documentation' }, [
      make('summary', { text: 'Parameters, columns, what an empty answer means' }),
      make('h3', { text: 'Parameters' }), savedQuery.parameters.length ? parameters : make('p', { class: 'quiet', text: 'none' }),
      make('h3', { text: 'Columns' }), columns,
      make('h3', { text: 'An empty answer means' }), make('p', { class: 'quiet', text: `${quotesOfCode(savedQuery.empty)}.` }),
    ]);
    form.replaceChildren(make('header', {}, [make('h1', { text: savedQuery.name })]),
      make('p', { class: 'meaning', text: quotesOfCode(savedQuery.doc) }), fields, more);
  }

  function showSql(text) {
    const input = make('textarea', {
      rows: '5', spellcheck: 'false', maxlength: '4000', 'aria-label': 'SQL', autocapitalize: 'off',
      placeholder: SQL_EXAMPLE,
    });
    input.value = text;
    // prepares the database on focus: a link alone starts nothing. A failure shows when the query runs
    input.addEventListener('focus', () => app.post(app.api('query/ready'), {}).catch(() => {}), { once: true });
    const run = make('button', { class: 'primary', type: 'button', text: 'Run', title: 'Ctrl+Enter' });
    const send = () => {
      running = null;
      const sql = input.value.trim() ? input.value : SQL_EXAMPLE;
      confirmed.add(sql);
      app.set({ q: null, sql, args: {} }, { push: true });
    };
    run.addEventListener('click', send);
    form.replaceChildren(
      make('header', {}, [make('h1', { text: 'Your own SQL' }), make('span', { class: 'quiet', text: 'one SELECT over the tables of this run' })]),
      input, make('div', { class: 'actions' }, [run, tables(app)]));
    return input;
  }

  function sync() {
    const savedQuery = chosen();
    const { sql } = app.view;
    const given = savedQuery ? values(savedQuery, app.view, options.t0) : {};
    const now = JSON.stringify([savedQuery?.name, given, sql]);
    if (now !== shown) {
      shown = now;
      drawList();
      if (savedQuery) showSavedQuery(savedQuery);
      else if (sql !== null) showSql(sql);
      else form.replaceChildren(make('p', { class: 'sentence', text: `There is no saved query ${app.view.q}; choose one from the list.` }));
    }
    const state = JSON.stringify([app.view.run, savedQuery?.name, given, sql ?? undefined]);
    if (state === running) return;
    if (savedQuery) {
      const lacks = missing(savedQuery, given);
      if (lacks.length) {
        answer.showMessage(`Fill in ${lacks.join(' and ')} above and run the query.`);
        form.querySelector(`input[name="${lacks[0]}"]`)?.focus();
      } else run(given, savedQuery);
    } else if (confirmed.has(sql)) run({}, null, sql);
    else if (sql?.trim()) answer.showMessage('This SQL came with the link. Read it, then press Run.');
    else answer.showMessage(sql === null ? 'No query was run.' : 'Write a SELECT above and run it: Ctrl+Enter.');
  }

  function drawList() {
    const current = app.view.sql !== null ? '' : app.view.q ?? FIRST;
    const pick = (name) => () => {
      shown = null;
      app.set(name === '' ? { q: null, sql: '', args: {} } : { q: name, sql: null, args: {} }, { push: true });
    };
    const entries = [['', 'Your own SQL', 'One SELECT over the tables of this run'],
      ...options.questions.map(({ name, doc }) => [name, name, quotesOfCode(doc)])];
    const select = make('select', { 'aria-label': 'Saved query' });
    const buttons = entries.map(([name, text, about]) => {
      select.append(make('option', { value: name, text, selected: name === current }));
      const button = make('button', {
        type: 'button', text, title: about, 'aria-current': name === current ? 'true' : 'false',
      });
      button.addEventListener('click', pick(name));
      return button;
    });
    select.addEventListener('change', () => pick(select.value)());
    list.replaceChildren(select, ...buttons);
    const chosenButton = buttons.find((button) => button.getAttribute('aria-current') === 'true');
    if (chosenButton && list.scrollHeight > list.clientHeight) {  // scroll the list only, not the page
      list.scrollTop = chosenButton.offsetTop - list.clientHeight / 2;
    }
  }

  const onView = () => {
    if (app.view.page !== 'query') return;
    clearTimeout(timer);
    timer = setTimeout(sync, running === null ? 0 : FOLLOW_MS);
  };
  const onKey = (event) => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    form.querySelector('button.primary')?.click();
  };
  app.addEventListener('view', onView);
  container.addEventListener('keydown', onKey);
  sync();
  return {
    destroy() {
      clearTimeout(timer);
      app.removeEventListener('view', onView);
      container.removeEventListener('keydown', onKey);
      answer.destroy();
    },
  };
}

/** Tables and columns that SQL can use, loaded when the user opens the list. */
function tables(app) {
  const container = make('div', { class: 'tables quiet', text: 'loading' });
  const details = make('details', {}, [make('summary', { text: 'Tables and columns' }), container]);
  details.addEventListener('toggle', async () => {
    if (!details.open || container.dataset.filled) return;
    container.dataset.filled = 'yes';
    const sql = 'SELECT name, array_to_string(column_names, \', \') AS columns FROM (DESCRIBE)'
      + ' WHERE database = \'memory\' ORDER BY name';
    try {
      const answer = await (await app.post(app.api('query'), { sql })).json();
      container.replaceChildren(make('dl', {}, answer.rows.flatMap(([name, columns]) => [
        make('dt', { text: name }), make('dd', { text: columns })])));
    } catch (error) {
      container.textContent = error.message;
    }
  });
  return details;
}
