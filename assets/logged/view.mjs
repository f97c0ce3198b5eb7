/** On the overview: loss, gradient norm and learning rate by step, as the job logged them. */
import { lineScale } from '../lib/canvas/line_scale.mjs';
import { make } from '../lib/dom.mjs';
import { followRun } from '../lib/page/follow_run.mjs';
import { asSentence } from '../lib/sentences.mjs';
import { badPath, badText, extremes, linePath, newest, rangePath, rows, seriesOf, TITLES } from './text.mjs';

const NEWS_MS = 2000;
const BOX = { width: 400, height: 90 };  // of the drawing's own units; it is stretched to its place
const ROWS = 20;
const SVG = 'http://www.w3.org/2000/svg';

/** @param {HTMLElement} place @param {Object} app */
export function mount(place, app) {
  return followRun(app, {
    load: (signal) => app.arrays(app.api('logged', { attempt: app.view.attempt, width: BOX.width }), signal),
    show: ({ arrays, meta }) => show(place, parts(arrays, meta, app)),
    showError: (message) => show(place, [head(), make('p', { class: 'quiet' }, `What the job logged cannot be shown. ${asSentence(message)}`)]),
    newsMs: NEWS_MS,
  });
}

const head = (text = '') => make('header', {}, make('h2', {}, 'Logged by the job'), make('span', { class: 'quiet' }, text));

/** Heading and a plot of each number; one sentence where a job that could log has not; nothing for imported runs. */
function parts(arrays, meta, app) {
  const names = Object.keys(meta.numbers);
  if (!names.length) {
    const hint = 'No loss, gradient norm or learning rate was logged: tracer.log(loss=loss) does, and so do the two lines for a framework.';
    return meta.is_live ? [head(), make('p', { class: 'quiet' }, hint)] : [];
  }
  const all = Object.fromEntries(names.map((name) => [name, seriesOf(arrays, name)]));
  return [head('mean over the ranks, by step'),
    make('div', { class: 'logged-plots' }, names.map((name) => figure(name, all[name], meta.numbers[name], app))),
    make('details', {}, make('summary', { 'data-key': 'table' }, 'Newest values'), table(all))];
}

function figure(name, series, said, app) {
  const scale = lineScale([series]);
  const bad = badText(said);
  const svg = drawn('svg', { viewBox: `0 0 ${BOX.width} ${BOX.height}`, preserveAspectRatio: 'none', role: 'img' });
  svg.setAttribute('aria-label', `${TITLES[name]}: ${[newest(said), bad].filter(Boolean).join('. ')}`);
  for (const [kind, path] of [['bad', badPath(series, BOX)], ['range', rangePath(series, scale, BOX)], ['line', linePath(series, scale, BOX)]]) {
    svg.append(drawn('path', { d: path, class: `logged-${kind}`, 'vector-effect': 'non-scaling-stroke' }));
  }
  const [low, high] = extremes(series);
  const step = said.first_bad;
  const look = bad && app.pages ? make('button', {
    type: 'button', class: 'link', 'data-key': name, on: { click: () => app.open({ page: 'timeline', steps: [Math.max(step - 1, 0), step + 1] }) },
  }, 'Show the first') : '';
  return make('figure', {}, make('figcaption', {}, make('h3', {}, TITLES[name]), make('span', { class: 'quiet' }, newest(said))),
    make('div', { class: 'logged-box' }, make('span', { class: 'faint' }, high), svg, make('span', { class: 'faint' }, `${low}${scale.isLog ? ' (logarithmic)' : ''}`)),
    make('div', { class: 'logged-steps faint' }, make('span', {}, `step ${series.first[0].toLocaleString('en')}`),
      make('span', {}, series.last.at(-1).toLocaleString('en'))),
    bad ? make('p', { class: 'fault' }, `✕ ${bad}. `, look) : '');
}

function table(all) {
  const heads = ['Step', ...Object.keys(all).map((name) => TITLES[name])].map((text) => make('th', { scope: 'col' }, text));
  return make('div', { class: 'scroll' }, make('table', {}, make('thead', {}, make('tr', {}, heads)), make('tbody', {}, rows(all, ROWS).map(
    ([steps, ...values]) => make('tr', {}, make('th', { scope: 'row' }, steps), values.map((text) => make('td', { class: 'number' }, text)))))));
}

function drawn(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** Redraw; the table stays open and the focus where it was. */
function show(place, content) {
  const isOpen = place.querySelector('details')?.open;
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  place.hidden = !content.length;
  place.classList.remove('loading');
  place.replaceChildren(...content);
  if (isOpen && place.querySelector('details')) place.querySelector('details').open = true;
  if (focused) [...place.querySelectorAll('[data-key]')].find((one) => one.dataset.key === focused)?.focus();
}
