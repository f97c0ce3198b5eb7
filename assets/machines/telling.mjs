/** On the overview: the changes of machines that show a fault by themselves, in a few sentences. */
import { make } from '../lib/dom.mjs';
import { followRun } from '../lib/page/follow_run.mjs';

const NEWS_MS = 10_000;

/** @param {HTMLElement} place @param {Object} app */
export function mount(place, app) {
  return followRun(app, {
    load: (signal) => app.json(app.api('machines/telling', { attempt: app.view.attempt }), signal),
    show: (found) => show(place, tellingParts(found, app)),
    showError: (message) => show(place, failedParts(message, app)),
    newsMs: NEWS_MS,
  });
}

const button = (text, key, act, attributes = {}) => make('button', {
  type: 'button', class: 'link', 'data-key': key, ...attributes, on: { click: act },
}, text);

/** A shared file has no other page. */
function head(text, app) {
  return make('header', {}, make('h2', {}, 'What changed on the machines'),
    app.pages ? button(text, 'all', () => app.open({ page: 'machines' })) : []);
}

/** Heading and sentences; nothing where no change tells anything. @param {{changes: Object[], more: number}} found */
export function tellingParts({ changes, more }, app) {
  if (!changes.length) return [];
  const all = more ? `${more.toLocaleString('en')} more on the page Machines` : 'All changes are on the page Machines';
  return [head(all, app),
    make('ul', {}, changes.map((change, i) => make('li', {}, `${change.text}. `, app.pages ? button('Show this step', `step ${i}`,
      () => app.open({
        page: 'timeline', steps: [Math.max(change.step - 1, 0), change.step + 1], rank: change.ranks[0] ?? app.view.rank,
      }), { 'aria-label': `Show step ${change.step} in the timeline` }) : [])))];
}

function failedParts(message, app) {
  return [head('Page Machines', app),
    make('p', { class: 'quiet' }, `Not looked for here: ${message}`)];
}

function show(place, parts) {
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  place.hidden = !parts.length;
  place.replaceChildren(...parts);
  if (focused) [...place.querySelectorAll('[data-key]')].find((one) => one.dataset.key === focused)?.focus();
}
