/** The query page: ready questions at the left, what one asks and its answer at the right. */
import { make } from '../lib/dom.mjs';
import { answerPanel } from './answer_panel.mjs';
import { command, missing, placeholder, request, values } from './saved_query.mjs';

const FIRST = 'slowest_ranks';
const FOLLOW_MS = 300;
const SQL_EXAMPLE = "SELECT rank, count(*) AS spans, sum(dur_ns) AS time_ns\nFROM spans WHERE kind = 'tp_comm'\n"
  + 'GROUP BY rank ORDER BY time_ns DESC';

/** @param {HTMLElement} place @param {import('../lib/app.mjs').App} app */
export function mount(place, app, options) {
  const byName = Object.fromEntries(options.questions.map((one) => [one.name, one]));
  const list = make('nav', { class: 'panel questions', 'aria-label': 'Questions' });
  const asked = make('section', { class: 'panel asked' });
  const answer = answerPanel(app);
  place.replaceChildren(list, make('div', { class: 'query-main' }, [asked, answer.element]));
  let shown = null;   // what the form stands for
  let running = null; // what was asked last, as JSON
  const confirmed = new Set();  // SQL that the user has run here: that of an address is only shown
  let timer = 0;

  const chosen = () => (app.view.sql !== null ? null : byName[app.view.q ?? FIRST] ?? null);
  const ask = (given, question, sql) => {
    running = JSON.stringify([app.view.run, question?.name, given, sql]);
    const params = question ? request(question, given) : {};
    answer.ask(params, question, question ? null : sql, command(options.folder, question, given, sql));
  };

  function showQuestion(question) {
    const form = make('form', { class: 'parameters' });
    const given = values(question, app.view, options.t0);
    for (const parameter of question.parameters) {
      const input = make('input', {
        name: parameter.name, value: given[parameter.name] ?? '', placeholder: placeholder(parameter),
        inputmode: parameter.type === 'text' ? 'text' : 'decimal', autocomplete: 'off', spellcheck: 'false',
      });
      const about = [parameter.type, parameter.doc].filter(Boolean).join(': ');
      form.append(make('label', { title: about }, [
        make('span', { class: 'quiet', text: parameter.name }), input]));
    }
    form.append(make('button', { class: 'primary', type: 'submit', text: 'Run', title: 'Ctrl+Enter' }));
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const args = Object.fromEntries([...new FormData(form)].filter(([, value]) => value.trim() !== ''));
      running = null;
      app.set({ q: question.name, sql: null, args }, { push: true });
    });
    const columns = make('dl', {}, question.columns.flatMap(([name, about]) => [
      make('dt', { text: name }), make('dd', { text: about })]));
    const parameters = make('dl', {}, question.parameters.flatMap((p) => [
      make('dt', { text: p.name }),
      make('dd', { text: `${p.type}, ${p.required ? 'needed' : `default ${placeholder(p)}`}${p.doc ? `: ${p.doc}` : ''}` })]));
    const more = make('details', { class: 'documentation' }, [
      make('summary', { text: 'Parameters, columns, what an empty answer means' }),
      make('h3', { text: 'Parameters' }), question.parameters.length ? parameters : make('p', { class: 'quiet', text: 'none' }),
      make('h3', { text: 'Columns' }), columns,
      make('h3', { text: 'Empty' }), make('p', { class: 'quiet', text: `${question.empty}.` }),
    ]);
    asked.replaceChildren(make('header', {}, [make('h1', { text: question.name })]),
      make('p', { class: 'meaning', text: question.doc }), form, more);
  }

  function showSql(text) {
    const input = make('textarea', {
      rows: '5', spellcheck: 'false', maxlength: '4000', 'aria-label': 'SQL', autocapitalize: 'off',
      placeholder: SQL_EXAMPLE,
    });
    input.value = text;
    // not before: a link alone starts nothing. A query that runs says what is wrong
    input.addEventListener('focus', () => app.post(app.api('query/ready'), {}).catch(() => {}), { once: true });
    const run = make('button', { class: 'primary', type: 'button', text: 'Run', title: 'Ctrl+Enter' });
    const send = () => {
      running = null;
      const sql = input.value.trim() ? input.value : SQL_EXAMPLE;
      confirmed.add(sql);
      app.set({ q: null, sql, args: {} }, { push: true });
    };
    run.addEventListener('click', send);
    asked.replaceChildren(
      make('header', {}, [make('h1', { text: 'Your own SQL' }), make('span', { class: 'quiet', text: 'one SELECT over the tables of this run' })]),
      input, make('div', { class: 'actions' }, [run, tables(app)]));
    return input;
  }

  function sync() {
    const question = chosen();
    const { sql } = app.view;
    const given = question ? values(question, app.view, options.t0) : {};
    const now = JSON.stringify([question?.name, given, sql]);
    if (now !== shown) {
      shown = now;
      drawList();
      if (question) showQuestion(question);
      else if (sql !== null) showSql(sql);
      else asked.replaceChildren(make('p', { class: 'sentence', text: `There is no question ${app.view.q}; choose one of the list.` }));
    }
    const state = JSON.stringify([app.view.run, question?.name, given, sql ?? undefined]);
    if (state === running) return;
    if (question) {
      const lacks = missing(question, given);
      if (lacks.length) {
        answer.say(`It needs ${lacks.join(' and ')}: fill that in above and run it.`);
        asked.querySelector(`input[name="${lacks[0]}"]`)?.focus();
      } else ask(given, question);
    } else if (confirmed.has(sql)) ask({}, null, sql);
    else if (sql?.trim()) answer.say('This SQL came with the address. Read it, then press Run.');
    else answer.say('Write a SELECT above and run it: Ctrl+Enter.');
  }

  function drawList() {
    const current = app.view.sql !== null ? '' : app.view.q ?? FIRST;
    const pick = (name) => () => {
      shown = null;
      app.set(name === '' ? { q: null, sql: '', args: {} } : { q: name, sql: null, args: {} }, { push: true });
    };
    const entries = [['', 'Your own SQL', 'One SELECT over the tables of this run'],
      ...options.questions.map((one) => [one.name, one.name, one.doc])];
    const select = make('select', { 'aria-label': 'Question' });
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
    if (chosenButton && list.scrollHeight > list.clientHeight) {  // the list alone, not the page
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
    asked.querySelector('button.primary')?.click();
  };
  app.addEventListener('view', onView);
  place.addEventListener('keydown', onKey);
  sync();
  return {
    destroy() {
      clearTimeout(timer);
      app.removeEventListener('view', onView);
      place.removeEventListener('keydown', onKey);
      answer.destroy();
    },
  };
}

/** Tables and columns SQL can use, asked for when they are wanted. */
function tables(app) {
  const place = make('div', { class: 'tables quiet', text: 'loading' });
  const details = make('details', {}, [make('summary', { text: 'Tables and columns' }), place]);
  details.addEventListener('toggle', async () => {
    if (!details.open || place.dataset.filled) return;
    place.dataset.filled = 'yes';
    const sql = 'SELECT name, array_to_string(column_names, \', \') AS columns FROM (DESCRIBE)'
      + ' WHERE database = \'memory\' ORDER BY name';
    try {
      const found = await (await app.post(app.api('query'), { sql })).json();
      place.replaceChildren(make('dl', {}, found.rows.flatMap(([name, columns]) => [
        make('dt', { text: name }), make('dd', { text: columns })])));
    } catch (error) {
      place.textContent = error.message;
    }
  });
  return details;
}
