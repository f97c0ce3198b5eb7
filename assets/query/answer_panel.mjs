/** What became of a query: running, its rows, nothing, or what is wrong with it. */
import { make } from '../lib/dom.mjs';
import { answerTable } from './answer_table.mjs';
import { countSentence } from './cell_text.mjs';

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
  let asking = new AbortController();
  let commandText = '';
  let csvAddress = async () => '';

  const busy = (is) => {
    cancel.hidden = !is;
    panel.classList.toggle('busy', is);
  };
  const offer = (is) => { csv.hidden = !is; copy.hidden = !is; };
  offer(false);

  copy.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(commandText);
      copy.textContent = 'Copied';
    } catch {  // no clipboard without a secure context: show it to be copied by hand
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
    asking.abort();
    busy(false);
    about.textContent = '';
    body.replaceChildren(make('p', { class: 'sentence', text: 'Cancelled.' }));
  });

  return {
    element: panel,
    /** A sentence instead of an answer. */
    say(text) {
      asking.abort();
      busy(false);
      offer(false);
      about.textContent = '';
      body.replaceChildren(make('p', { class: 'sentence', text }));
    },
    /** Ask api/run/RUN/query; what was asked before is stopped. `sql`: null for a saved question. */
    async ask(params, question, sql, command) {
      asking.abort();
      asking = new AbortController();
      const { signal } = asking;
      commandText = command;
      csvAddress = async () => {
        if (sql === null) return app.api('query.csv', params);
        const { ticket } = await (await app.post(app.api('query.csv/ticket'), { sql })).json();
        return app.api('query.csv', { ticket });
      };
      offer(true);
      const slow = setTimeout(() => { busy(true); about.textContent = 'running'; }, SLOW_MS);
      try {
        const answer = sql === null ? await app.json(app.api('query', params), signal)
          : await (await app.post(app.api('query'), { sql }, signal)).json();
        about.textContent = countSentence(answer);
        const empty = question ? `No rows: ${question.empty}.` : 'No rows.';
        const columns = Object.fromEntries(question?.columns ?? []);
        body.replaceChildren(...(answer.rows.length
          ? answerTable(app, answer, columns) : [make('p', { class: 'sentence', text: empty })]));
      } catch (error) {
        if (signal.aborted) return;
        about.textContent = '';
        offer(false);
        body.replaceChildren(make('p', { class: 'failed', role: 'alert', text: error.message }));
      } finally {
        clearTimeout(slow);
        if (!signal.aborted) busy(false);
      }
    },
    destroy() { asking.abort(); },
  };
}
