/** The answer to a query: running, rows, no rows, or an error. */
import { make } from '../lib/dom.mjs';
import { answerTable } from './answer_table.mjs';
import { countSentence } from './cell_text.mjs';
import { quotesOfCode } from './saved_query.mjs';

const SLOW_MS = 150;

/** @param {import('../lib/app.mjs').App} app */
export function answerPanel(app) {
  const about = make('span', { class: 'quiet', role: 'status' });
  const cancel = make('button', { type: 'button', text: 'Cancel', hidden: true });
  const csv = make('button', { type: 'button', text: 'CSV', title: 'The whole answer as a file' });
  const copy = make('button', { type: 'button', text: 'Copy as rankscope query command' });
  const head = make('header', {}, [
    make('h2', { text: 'Answer' }), about, make('span', { class: 'push' }), cancel, csv, copy]);
  const body = make('div', { class: 'answer-body' });
  const panel = make('section', { class: 'panel answer-panel', 'aria-live': 'off' }, [head, body]);
  let request = new AbortController();
  let commandText = '';
  let csvAddress = async () => '';

  const setBusy = (isBusy) => {
    cancel.hidden = !isBusy;
    panel.classList.toggle('busy', isBusy);
  };
  const showActions = (isShown) => { csv.hidden = !isShown; copy.hidden = !isShown; };
  showActions(false);

  copy.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(commandText);
      copy.textContent = 'Copied';
    } catch {  // without HTTPS there is no clipboard: show the command to copy it by hand
      body.prepend(make('pre', { class: 'command', tabindex: '0', text: commandText }));
      copy.textContent = 'Shown below';
    }
    setTimeout(() => { copy.textContent = 'Copy as rankscope query command'; }, 1500);
  });
  csv.addEventListener('click', async () => {
    try {
      make('a', { href: await csvAddress(), download: true }).click();
    } catch (error) {
      body.prepend(make('p', { class: 'failed', role: 'alert', text: error.message }));
    }
  });
  cancel.addEventListener('click', () => {
    request.abort();
    setBusy(false);
    about.textContent = '';
    body.replaceChildren(make('p', { class: 'sentence', text: 'Cancelled.' }));
  });

  return {
    element: panel,
    /** Show a sentence instead of an answer. */
    showMessage(text) {
      request.abort();
      setBusy(false);
      showActions(false);
      about.textContent = '';
      body.replaceChildren(make('p', { class: 'sentence', text }));
    },
    /** Run a query; the query before is stopped. `sql`: null for a saved query. */
    async run(params, savedQuery, sql, command) {
      request.abort();
      request = new AbortController();
      const { signal } = request;
      commandText = command;
      csvAddress = async () => {
        if (sql === null) return app.api('query.csv', params);
        const { ticket } = await (await app.post(app.api('query.csv/ticket'), { sql })).json();
        return app.api('query.csv', { ticket });
      };
      showActions(true);
      const slow = setTimeout(() => { setBusy(true); about.textContent = 'running'; }, SLOW_MS);
      try {
        const answer = sql === null ? await app.json(app.api('query', params), signal)
          : await (await app.post(app.api('query'), { sql }, signal)).json();
        about.textContent = countSentence(answer);
        const empty = savedQuery ? `No rows: ${quotesOfCode(savedQuery.empty)}.` : 'No rows.';
        const columns = Object.fromEntries(savedQuery?.columns ?? []);
        body.replaceChildren(...(answer.rows.length
          ? answerTable(app, answer, columns) : [make('p', { class: 'sentence', text: empty })]));
      } catch (error) {
        if (signal.aborted) return;
        about.textContent = '';
        showActions(false);
        body.replaceChildren(make('p', { class: 'failed', role: 'alert', text: error.message }));
      } finally {
        clearTimeout(slow);
        if (!signal.aborted) setBusy(false);
      }
    },
    destroy() { request.abort(); },
  };
}
