/** The Stuck page: who is waited for and why, the tree of waits, what ranks do, what to try next. */
import { make } from '../lib/dom.mjs';
import { makeFetcher } from '../lib/fetcher.mjs';
import { makeLogPane } from '../lib/log_pane.mjs';
import { lastLines, rankTable, stackList, waitTree } from './parts.mjs';

const NEWS_MS = 1000;

const CHECKED = 'Watchdogs look at ranks that neither begin a step nor enter a collective for longer than usual.';
const HEADLINES = {
  moved: 'The ranks that stood still have gone on.',
  ended: 'The job has ended; nothing is stuck.',
  none: 'Nothing is stuck.',
};

export function mount(place, app) {
  let { attempt } = app.view;
  const stop = new AbortController();
  place.replaceChildren(make('p', { class: 'panel sentence', role: 'status' }, 'Asking where the ranks stand.'));

  const logs = makeLogPane(app);
  const fetcher = makeFetcher(async (signal) => {
    try {
      const found = await app.json(app.api('stuck', { attempt }), signal);
      if (!signal.aborted) show(place, app, found, logs);
    } catch (error) {
      if (error.name !== 'AbortError') {
        place.replaceChildren(make('p', { class: 'panel sentence', role: 'alert' }, error.message));
      }
    }
  }, NEWS_MS);

  const follow = () => {
    if (app.view.attempt === attempt) return;
    ({ attempt } = app.view);
    fetcher.now();
  };
  app.addEventListener('run', fetcher.news, { signal: stop.signal });
  app.addEventListener('run', logs.news, { signal: stop.signal });
  app.addEventListener('view', follow, { signal: stop.signal });
  fetcher.now();
  return {
    destroy() {
      stop.abort();
      fetcher.stop();
      logs.destroy();
    },
  };
}

function show(place, app, found, logs) {
  const isStuck = found.state === 'stuck';
  const isTold = !isStuck && found.findings.length > 0; // the finding says what became of the job
  const parts = [isTold ? null : headline(found, isStuck), ...found.findings.map((finding) => why(finding))];
  if (found.lines.length) parts.push(panel('Last lines', lastLines(found.lines)));
  if (isStuck) {
    parts.push(
      panel('Who waits for whom', waitTree(found)),
      found.commands.length ? panel('What to try next', commands(found.commands)) : null,
      found.stacks.length ? panel('What ranks do', stackList(found.stacks)) : null,
      panel('Where every rank stands', rankTable(found, app), note(found)),
    );
  }
  if (found.lines.length) parts.push(logs.element);
  place.replaceChildren(...parts.filter(Boolean));
}

function headline({ state, status, age_s: age }, isStuck) {
  const seen = age === null ? '' : ` Last looked at ${ago(age)} ago.`;
  const text = isStuck ? status || 'Ranks wait.' : HEADLINES[state];
  return make('section', { class: `panel stuck-head ${isStuck ? 'is-stuck' : 'is-well'}`, role: 'status' },
    make('strong', {}, text), make('span', { class: 'quiet' }, isStuck ? seen : ` ${CHECKED}${seen}`));
}

function why({ title, text, confidence, next_step: next }) {
  return make('section', { class: 'panel stuck-why', 'aria-label': title },
    make('h2', {}, title), make('p', {}, text),
    make('p', { class: 'quiet' }, `Confidence ${confidence}. ${next}`));
}

function panel(title, content, aside = null) {
  return make('section', { class: 'panel', 'aria-label': title },
    make('header', {}, make('h2', {}, title), aside ?? []), content);
}

function note({ ranks, num_ranks: all }) {
  return ranks.length < all ? make('span', { class: 'quiet' }, `${ranks.length} of ${all} ranks`) : null;
}

function commands(list) {
  return make('ul', { class: 'stuck-commands' }, list.map(({ what, command }) => make('li', {},
    make('span', {}, `${what}: `), make('code', {}, command), copyButton(command))));
}

function copyButton(text) {
  const button = make('button', { type: 'button', 'aria-label': `Copy ${text}` }, 'Copy');
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  });
  return button;
}

/** 40 s, 3 min, 2 h, 5 days */
function ago(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}
