/** All runs together: what is lost and to what, over time, slow hosts, MFU, and the table of runs. */
import { make } from '../lib/dom.mjs';
import { makeFetcher } from '../lib/fetcher.mjs';
import { cannotBeShown, sentence } from '../lib/sentences.mjs';
import { emptyView, formatUrl } from '../lib/view_state.mjs';
import { filterForm } from './filter_form.mjs';
import { causePanel, hostPanel, modelPanel, problemPanel, slowdownPanel, timePanel } from './panels.mjs';
import { runTable } from './run_table.mjs';
import { progress, summary } from './text.mjs';

const NEWS_MS = 1000;
const FIRST_POLL_MS = 300;
const POLL_MS = 2000;
const SETTLED_POLL_MS = 15_000;

/** @param {HTMLElement} place @param {import('../lib/app.mjs').App} app */
export function mount(place, app) {
  const stop = new AbortController();
  let timer = 0;
  let drawn = '';
  const about = make('span', { class: 'quiet', role: 'status' });
  const state = make('p', { class: 'note', role: 'status', hidden: true });
  const content = make('div', { class: 'fleet-panels' }, sentence('status', 'Reading the summaries of all runs.'));
  const choose = (patch) => app.set({ fleet: without({ ...app.view.fleet, ...patch }) });
  const form = filterForm(choose);
  place.replaceChildren(make('section', { class: 'panel fleet-head', 'aria-label': 'Which runs' }, make('header', {}, make('h2', {}, 'All runs'), about), form.element), state, content);

  function runLink(run, finding, text) {
    const view = { ...emptyView(), run, finding };
    return make('a', {
      href: formatUrl(view, app.base), title: text, class: 'fleet-run', 'data-key': `${run} ${finding}`, on: { click: (event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
        event.preventDefault();
        app.open(view);
      } },
    }, text === '' || finding === null ? run : text);
  }

  const hostLink = (run, finding, text) => {
    const link = runLink(run, finding, text);
    link.textContent = run;
    return link;
  };

  function show(answer) {
    const shown = JSON.stringify([answer, app.view.fleet]);
    if (shown === drawn) return;
    drawn = shown;
    about.textContent = summary(answer);
    note(progress(answer));
    form.show(app.view.fleet, answer);
    const open = new Set([...content.querySelectorAll('details[open]')].map((one) => one.dataset.key));
    const focused = document.activeElement?.dataset?.key;
    content.replaceChildren(...panels(answer));
    for (const one of content.querySelectorAll('details')) one.open = open.has(one.dataset.key);
    if (focused) [...content.querySelectorAll('[data-key]')].find((one) => one.dataset.key === focused)?.focus();
  }

  function panels(answer) {
    const { fleet, problems } = answer;
    const texts = Object.fromEntries(fleet.causes.map((one) => [one.cause, one.text]));
    const textOf = (cause) => texts[cause] ?? cause;
    const failed = problems.length ? [problemPanel(problems)] : [];
    if (!fleet.num_runs) return [sentence(null, nothing(answer)), ...failed];
    const { sort = 'lost', dir = 'desc' } = app.view.fleet;
    return [
      make('div', { class: 'fleet-pair' }, slowdownPanel(fleet, answer.straggling), causePanel(fleet)),
      make('div', { class: 'fleet-pair' }, timePanel(fleet, textOf), hostPanel(fleet, answer.fewest_runs, hostLink)),
      modelPanel(fleet, answer.points, runLink),
      runTable(answer, { sort, dir }, choose, runLink),
      ...failed,
    ];
  }

  function note(text) {
    state.hidden = text === '';
    state.textContent = text;
  }

  const fetcher = makeFetcher(async (signal) => {
    clearTimeout(timer);
    let wait = POLL_MS;
    try {
      const answer = await app.json(`${app.base}/api/fleet?${new URLSearchParams(app.view.fleet)}`, signal);
      if (signal.aborted) return;
      if (answer.has_looked) show(answer);
      if (!answer.has_looked) wait = FIRST_POLL_MS;
      else if (!answer.num_missing) wait = SETTLED_POLL_MS;
    } catch (error) {
      if (error.name === 'AbortError' || signal.aborted) return;
      drawn = '';
      note('');
      content.replaceChildren(cannotBeShown('The fleet', error));
      form.show(app.view.fleet, { models: [], hosts: [] });
    }
    if (!document.hidden) timer = setTimeout(fetcher.now, wait);
  }, NEWS_MS);

  let asked = JSON.stringify(app.view.fleet);
  const follow = () => {
    const next = JSON.stringify(app.view.fleet);
    if (app.view.run !== null || next === asked) return;
    asked = next;
    fetcher.soon();
  };
  app.addEventListener('view', follow, { signal: stop.signal });
  document.addEventListener('visibilitychange', () => { if (!document.hidden) fetcher.now(); }, { signal: stop.signal });
  fetcher.now();
  return {
    destroy() {
      stop.abort();
      clearTimeout(timer);
      fetcher.stop();
    },
  };
}

const without = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ''));

function nothing({ num_all: numAll, num_missing: missing, problems }) {
  if (numAll) return 'No run matches this choice. Clear the filters to see all runs.';
  if (missing) return 'The first runs are being summarised; numbers appear as they are done.';
  return problems.length ? 'No run could be read.' : 'No runs yet. The page Runs says how to record or import one.';
}
