/** From the start of each process to the end of its first step: who does what, and whom the job waited for. */
import { make } from '../lib/dom.mjs';
import { makeFetcher } from '../lib/fetcher.mjs';
import { cannotBeShown, sentence } from '../lib/sentences.mjs';
import { duration } from '../lib/value_text.mjs';
import { barsOf, callCells, headline, LABEL, NOT_RECORDED, nowText, ranksText, slowSentences } from './text.mjs';

const NEWS_MS = 2000;

export function mount(element, app) {
  let { attempt } = app.view;
  const stop = new AbortController();
  element.replaceChildren(sentence('status', 'Reading how the job started.'));

  const rankButton = (rank) => make('button', { type: 'button', value: rank, on: { click: () => app.set({ rank }) } }, `rank ${rank}`);
  const markSelected = () => element.querySelectorAll('button[value]').forEach(
    (button) => button.setAttribute('aria-pressed', String(button.value === String(app.view.rank))));

  function show(found) {
    const focused = element.contains(document.activeElement) ? document.activeElement.value : undefined;
    element.replaceChildren(found.num_ranks ? panel(found, rankButton) : notRecorded());
    if (focused) element.querySelector(`button[value="${focused}"]`)?.focus();
    markSelected();
  }

  const fetcher = makeFetcher(async (signal) => {
    try {
      const found = await app.json(app.api('startup', { attempt }), signal);
      if (!signal.aborted) show(found);
    } catch (error) {
      if (error.name !== 'AbortError') element.replaceChildren(cannotBeShown('Start-up', error));
    }
  }, NEWS_MS);

  function follow() {
    if (app.view.attempt !== attempt) {
      ({ attempt } = app.view);
      fetcher.now();
    }
    markSelected();
  }

  app.addEventListener('run', fetcher.news, { signal: stop.signal });
  app.addEventListener('view', follow, { signal: stop.signal });
  fetcher.now();
  return {
    destroy() {
      stop.abort();
      fetcher.stop();
    },
  };
}

const notRecorded = () => sentence('status',
  make('strong', {}, 'Start-up: not recorded. '), NOT_RECORDED);

function panel(found, rankButton) {
  const slow = slowSentences(found);
  const missing = found.missing.length ? make('p', { class: 'note' }, `No sign yet of ${ranksText(found.missing)}: a rank reports once it has met the others.`) : undefined;
  return make('section', { class: 'panel' },
    make('header', {}, make('h2', {}, 'Start-up'), make('span', { class: 'quiet' }, headline(found))),
    ...slow.map((text) => make('p', { class: 'startup-slow' }, text)), missing ?? '',
    legend(found), bars(found, rankButton), spread(found, rankButton), ...calls(found));
}

function legend({ parts }) {
  return make('p', { class: 'startup-legend quiet' }, parts.map((part) => make('span', {}, make('i', { class: `phase-${name(part)}` }), LABEL[part])));
}

const name = (part) => part.replace(' ', '-');

function bars(found, rankButton) {
  const whole = Math.max(found.seconds, 1e-9);
  const row = (rank) => {
    const track = make('span', { class: 'startup-track' });
    for (const bar of barsOf(rank, whole)) {
      const drawn = make('i', { class: `phase-${name(bar.part)}`, title: bar.what });
      drawn.style.left = `${100 * bar.left}%`;
      drawn.style.width = `${100 * bar.width}%`;
      track.append(drawn);
    }
    const back = make('span', { class: 'startup-own' });
    back.style.left = `${100 * (rank.begin_s / whole)}%`;
    back.style.width = `${100 * (rank.seconds / whole)}%`;
    track.prepend(back);
    const says = nowText(rank, found.doing);
    return make('tr', {}, make('th', { scope: 'row' }, rankButton(rank.rank)),
      make('td', { class: 'startup-bar', 'aria-label': spoken(rank) }, track, says ? make('span', { class: 'startup-now' }, says) : ''),
      make('td', { class: 'number' }, duration(rank.seconds)));
  };
  const more = found.num_ranks > found.ranks.length ? make('caption', { class: 'quiet' }, `the ${found.ranks.length} slowest of ${found.num_ranks.toLocaleString('en')} ranks`) : '';
  return make('table', { class: 'startup-ranks' }, more, make('tbody', {}, found.ranks.map(row)));
}

const spoken = (rank) => Object.entries(rank.parts).map(([part, seconds]) => `${LABEL[part]} ${duration(seconds)}`).join(', ');

function spread(found, rankButton) {
  const head = ['', 'least', 'usual', 'most', 'on'].map((text, at) => make('th', { scope: 'col', class: at && at < 4 ? 'number' : '' }, text));
  const slow = new Set(found.slow.map((one) => one.phase));
  const row = (one) => make('tr', {}, make('th', { scope: 'row' }, make('i', { class: `phase-${name(one.part)}` }), LABEL[one.part]),
    ...[one.low, one.usual, one.high].map((seconds, at) => make('td', { class: at === 2 && slow.has(one.part) ? 'number is-slow' : 'number' }, duration(seconds))),
    make('td', {}, rankButton(one.rank)));
  return make('div', { class: 'scroll' }, make('table', { class: 'startup-spread' }, make('thead', {}, make('tr', {}, head)), make('tbody', {}, found.spread.map(row))));
}

function calls({ calls: rows }) {
  if (!rows.length) return [];
  const head = ['when', 'what', 'call', 'ranks', 'slowest', 'bytes', 'of the slowest', ''].map((text) => make('th', { scope: 'col' }, text));
  const cells = (call) => callCells(call).map((text, at) => make('td', { class: at > 2 && at < 7 ? 'number' : '' }, text));
  return [make('h3', {}, 'Checkpoints'), make('div', { class: 'scroll' }, make('table', { class: 'startup-calls' },
    make('thead', {}, make('tr', {}, head)), make('tbody', {}, rows.map((call) => make('tr', {}, cells(call))))))];
}
