/** The Stuck page: who is waited for and why, the tree of waits, what ranks do, what to try next. */
import { make } from '../lib/dom.mjs';
import { makeFetcher } from '../lib/fetcher.mjs';
import { makeLogPane } from '../lib/log_pane.mjs';
import { cannotBeShown, sentence } from '../lib/sentences.mjs';
import { stuckPanels } from './page.mjs';
import { Panels } from './panels.mjs';
import { whenText } from './messages.mjs';

const NEWS_MS = 1000;
const TICK_MS = 1000;

/** @param {HTMLElement} place @param {Object} app */
export function mount(place, app) {
  let { attempt } = app.view;
  let shown = null;
  const stop = new AbortController();
  const announcement = make('p', { class: 'visually-hidden', role: 'status' });
  const waiting = sentence('status', 'Loading where the ranks stand.');
  const body = make('div', { class: 'stuck' });
  place.classList.remove('stuck');
  place.replaceChildren(announcement, body);
  body.append(waiting);

  const logs = makeLogPane(app);
  let panels = null;
  const fetcher = makeFetcher(async (signal) => {
    try {
      const found = await app.json(app.api('stuck', { attempt }), signal);
      if (signal.aborted) return;
      shown = { found, atMs: performance.now() };
      panels ??= new Panels(body);
      const showLines = (finding) => logs.show({ ranks: finding.ranks, text: finding.cause });
      panels.show([...stuckPanels(found, app, { showLines }), { key: 'logs', data: null, build: () => logs.element }]);
      announce(announcement, found);
      tick();
    } catch (error) {
      if (error.name === 'AbortError') return;
      panels = null;
      body.replaceChildren(cannotBeShown('Where the ranks stand', error));
    }
  }, NEWS_MS);

  const tick = () => {
    const element = body.querySelector('.stuck-when');
    if (!shown || !element) return;
    const text = whenText(shown.found, shown.found.now_s + (performance.now() - shown.atMs) / 1000);
    if (element.textContent !== text) element.textContent = text;
  };
  const timer = setInterval(tick, TICK_MS);

  const follow = () => {
    if (app.view.attempt === attempt) return;
    ({ attempt } = app.view);
    fetcher.now();
    logs.soon();
  };
  app.addEventListener('run', fetcher.news, { signal: stop.signal });
  app.addEventListener('run', logs.news, { signal: stop.signal });
  app.addEventListener('view', follow, { signal: stop.signal });
  fetcher.now();
  return {
    destroy() {
      stop.abort();
      clearInterval(timer);
      fetcher.stop();
      logs.destroy();
    },
  };
}

/** Screen readers hear who waits for whom once, and not each second for how long. */
function announce(element, { status, state }) {
  const text = state === 'stuck' ? status.replace(/ for [\d,.]+ s\.$/, '.') : 'Nothing is stuck.';
  if (element.textContent !== text) element.textContent = text;
}
