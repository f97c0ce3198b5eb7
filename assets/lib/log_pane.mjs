/** A pane of log lines: searched, of chosen ranks and steps; a line's rank opens its timeline. */
import { make } from './dom.mjs';
import { makeFetcher } from './fetcher.mjs';

const NEWS_MS = 1000;

/**
 * @param {Object} app @param {() => Object} narrowed what the place of the pane shows: {ranks, steps}, each may be absent
 * @returns {{element: HTMLElement, news: Function, destroy: Function}} nothing is asked until the pane is opened
 */
export function makeLogPane(app, narrowed = () => ({})) {
  const search = make('input', { type: 'search', placeholder: 'Search the lines', 'aria-label': 'Search the lines' });
  const least = make('select', { 'aria-label': 'Least level' }, [['', 'all lines'], ['warning', 'warnings and errors'], ['error', 'errors']]
    .map(([value, text]) => make('option', { value }, text)));
  const about = make('span', { class: 'quiet', role: 'status' });
  const list = make('ol', { class: 'log-lines' });
  const element = make('details', { class: 'panel log-pane' }, make('summary', {}, 'Logs'),
    make('div', { class: 'log-head' }, search, least, about), list);

  const fetcher = makeFetcher(async (signal) => {
    if (!element.open) return;
    const { ranks = null, steps = null } = narrowed();
    const asked = { attempt: app.view.attempt, text: search.value.trim(), least: least.value };
    if (ranks?.length) asked.ranks = ranks.join(',');
    if (steps) asked.steps = steps.join('..');
    try {
      const { lines, num_found: count } = await app.json(app.api('logs', asked), signal);
      if (signal.aborted) return;
      about.textContent = countText(count, lines.length, steps);
      list.replaceChildren(...lines.map((line) => lineItem(line, app)));
    } catch (error) {
      if (error.name === 'AbortError') return;
      about.textContent = error.message;
      list.replaceChildren();
    }
  }, NEWS_MS);
  search.addEventListener('input', () => fetcher.soon());
  least.addEventListener('change', () => fetcher.now());
  element.addEventListener('toggle', () => fetcher.now());
  return { element, news: fetcher.news, soon: () => fetcher.soon(), destroy: () => fetcher.stop() };
}

/** 3 lines in steps 4 to 9; the newest 300 of 12,000 lines */
export function countText(count, shown, steps) {
  const many = `${count.toLocaleString('en')} line${count === 1 ? '' : 's'}`;
  const within = steps ? ` in step${steps[0] === steps[1] ? ` ${steps[0]}` : `s ${steps[0]} to ${steps[1]}`}` : '';
  if (!count) return `No line${within} is as asked for.`;
  return `${shown < count && shown >= 300 ? `the newest of ${many}` : many}${within}`;
}

function lineItem({ ranks, who, at_s: at, step, level, text, where }, app) {
  const lines = text.trimEnd().split('\n');
  const isError = level === 'error' || level === 'fatal';
  const code = make('code', { class: isError ? 'is-error' : '' }, lastTold(lines));
  const head = [make('span', { class: 'quiet' }, clock(at)), opener(ranks, who, step, app),
    step >= 0 ? make('span', { class: 'quiet' }, `step ${step}`) : []];
  const full = lines.length === 1 ? code
    : make('details', {}, make('summary', {}, code), make('pre', {}, lines.join('\n')));
  return make('li', { title: where }, make('div', { class: 'log-who' }, head), full);
}

function opener(ranks, who, step, app) {
  if (!ranks.length) return make('b', {}, who);
  const few = ranks.length > 3 ? `${ranks.length} ranks` : who;
  const button = make('button', { type: 'button', class: 'link', title: `Open ${who} in the timeline` }, few);
  button.addEventListener('click', () => app.open({
    page: 'timeline', rank: ranks[0], ...(step >= 0 ? { steps: [Math.max(step - 1, 0), step] } : {}),
  }));
  return button;
}

/** The last line that says something: boxes end in a rule. */
export const lastTold = (lines) => lines.findLast((line) => /[^=\-\s]/.test(line)) ?? lines.at(-1);

const clock = (seconds) => (seconds === null ? '' : `${new Date(seconds * 1000).toISOString().slice(11, 23)} `);
