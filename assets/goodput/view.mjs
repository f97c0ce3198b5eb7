/** Where the wall time of a run went over its attempts, and what another interval between saves would leave of it. */
import { make } from '../lib/dom.mjs';
import { makeFetcher } from '../lib/fetcher.mjs';
import { cannotBeShown, sentence } from '../lib/sentences.mjs';
import { duration } from '../lib/value_text.mjs';
import { caption, cells, headline, path, segments, ticks, xOf } from './text.mjs';

const NEWS_MS = 5000;
const BOX = { width: 560, height: 150 };
const SVG = 'http://www.w3.org/2000/svg';

export function mount(element, app) {
  const stop = new AbortController();
  element.replaceChildren(sentence('status', 'Adding up the attempts.'));
  const attemptButton = (attempt) => make('button', { type: 'button', value: attempt, on: { click: () => app.set({ attempt }) } }, String(attempt));

  const fetcher = makeFetcher(async (signal) => {
    try {
      const found = await app.json(app.api('goodput'), signal);
      if (signal.aborted) return;
      const focused = element.contains(document.activeElement) ? document.activeElement.value : undefined;
      element.replaceChildren(found?.reason ? sentence('status', found.reason) : found ? panel(found, attemptButton) : nothing());
      if (focused) element.querySelector(`button[value="${focused}"]`)?.focus();
    } catch (error) {
      if (error.name !== 'AbortError') element.replaceChildren(cannotBeShown('Goodput', error));
    }
  }, NEWS_MS);

  app.addEventListener('run', fetcher.news, { signal: stop.signal });
  fetcher.now();
  return {
    destroy() {
      stop.abort();
      fetcher.stop();
    },
  };
}

const nothing = () => sentence('status',
  make('strong', {}, 'Goodput: no rank has reported yet. '), 'This section then shows how much of the time was training.');

function panel(found, attemptButton) {
  return make('section', { class: 'panel' },
    make('header', {}, make('h2', {}, 'Goodput'), make('span', { class: 'quiet' }, headline(found))),
    legend(found), ledger(found, attemptButton), found.says.length ? make('h3', {}, 'Interval between saves') : '',
    ...found.says.map((text) => make('p', { class: 'goodput-says' }, text)), ...curve(found.advice));
}

function legend({ parts, words }) {
  return make('p', { class: 'startup-legend quiet' }, parts.map((part) => make('span', {}, make('i', { class: `part-${part}` }), words[part])));
}

function ledger(found, attemptButton) {
  const most = Math.max(...found.attempts.map((one) => one.wall_s ?? Object.values(one.parts).reduce((a, b) => a + b, 0)), 1e-9);
  const bar = (attempt) => {
    const track = make('span', { class: 'goodput-track' });
    for (const { part, share, text } of segments(attempt, found.parts, found.words, most)) {
      const drawn = make('i', { class: `part-${part}`, title: text });
      drawn.style.width = `${100 * share}%`;
      track.append(drawn);
    }
    return make('td', { class: 'goodput-bar' }, track);
  };
  const heads = ['attempt', '', 'ended', 'steps', ...found.parts.map((part) => found.words[part]), 'wall time'];
  const head = heads.map((text, at) => make('th', { scope: 'col', class: at > 3 ? 'number' : '' }, text));
  const row = (attempt) => make('tr', {}, make('th', { scope: 'row' }, attemptButton(attempt.attempt)), bar(attempt),
    ...cells(attempt, found.parts).map((text, at) => make('td', { class: at > 1 ? 'number' : '' }, text)));
  return make('div', { class: 'scroll' }, make('table', { class: 'goodput-ledger' },
    make('thead', {}, make('tr', {}, head)), make('tbody', {}, found.attempts.map(row))));
}

const drawn = (tag, attributes, text = '') => {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
};

/** Share of the time that is training by the interval: at the mean time between interruptions, and at both ends of its interval. */
function curve(advice) {
  if (!advice?.curve.length) return [];
  const { width, height } = BOX;
  const svg = drawn('svg', { viewBox: `-44 -8 ${width + 60} ${height + 32}`, class: 'goodput-curve', role: 'img' });
  svg.setAttribute('aria-label', advice.best_s ? `training share by the interval between saves, best at ${duration(advice.best_s)}` : 'training share by the interval between saves');
  for (const share of [0, 0.5, 1]) {
    svg.append(drawn('line', { x1: 0, x2: width, y1: height * (1 - share), y2: height * (1 - share), class: 'goodput-grid' }),
      drawn('text', { x: -6, y: height * (1 - share) + 4, 'text-anchor': 'end' }, `${100 * share} %`));
  }
  for (const seconds of ticks(advice.curve)) svg.append(drawn('text', { x: xOf(advice.curve, seconds, width), y: height + 16, 'text-anchor': 'middle' }, duration(seconds)));
  for (const [column, kind] of [[2, 'low'], [3, 'high'], [1, 'mean']]) svg.append(drawn('path', { d: path(advice.curve, column, BOX), class: `goodput-${kind}` }));
  const points = [[advice.interval_s, 'now'], [advice.best_s, 'best']];
  const isLeft = (seconds) => seconds === Math.min(...points.map(([one]) => one ?? Infinity)) && points.every(([one]) => one);
  for (const [seconds, label] of points) {
    if (!seconds || seconds < advice.curve[0][0] || seconds > advice.curve[advice.curve.length - 1][0]) continue;
    const x = xOf(advice.curve, seconds, width);
    svg.append(drawn('line', { x1: x, x2: x, y1: 0, y2: height, class: `goodput-mark-${label}` }),
      drawn('text', { x: x + (isLeft(seconds) ? -4 : 4), y: height - 6, 'text-anchor': isLeft(seconds) ? 'end' : 'start', class: `goodput-mark-${label}` }, `${label} ${duration(seconds)}`));
  }
  return [make('div', { class: 'scroll' }, svg), make('p', { class: 'quiet' }, caption(advice))];
}
