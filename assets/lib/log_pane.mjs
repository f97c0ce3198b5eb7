/** A pane of log lines: searched, of chosen ranks and steps; a line's rank opens its timeline. */
import { make } from './dom.mjs';
import { makeFetcher } from './fetcher.mjs';

const NEWS_MS = 1000;
const LEVELS = [['', 'all lines'], ['warning', 'warnings and errors'], ['error', 'errors']];
const NEAR_END_PX = 40;

/**
 * @param {Object} app @param {() => Object} narrowed what the place of the pane shows: {ranks, steps}, each may be absent
 * @returns {{element: HTMLElement, news: Function, soon: Function, show: Function, destroy: Function}} nothing is
 *   asked until the pane is opened; `show({ranks, text})` opens it with these lines
 */
export function makeLogPane(app, narrowed = () => ({})) {
  const search = make('input', { type: 'search', placeholder: 'Search the lines', 'aria-label': 'Search the lines' });
  const least = make('select', { 'aria-label': 'Least level' }, LEVELS.map(([value, text]) => make('option', { value }, text)));
  const chip = make('button', { type: 'button', class: 'log-chip', hidden: true });
  const withSteps = make('input', { type: 'checkbox', checked: true });
  const stepsLabel = make('label', { class: 'log-steps', hidden: true }, withSteps, ' only the steps in view');
  const about = make('span', { class: 'quiet', role: 'status' });
  const list = make('ol', { class: 'log-lines', tabindex: 0, 'aria-label': 'Log lines' });
  const element = make('details', { class: 'panel log-pane' }, make('summary', {}, 'Logs'),
    make('div', { class: 'log-head' }, search, least, stepsLabel, chip, about), list);
  let chosen = [];  // ranks
  let shown = '';

  const fetcher = makeFetcher(async (signal) => {
    if (!element.open) return;
    const { ranks = null, steps = null } = narrowed();
    stepsLabel.hidden = !steps;
    const within = withSteps.checked ? steps : null;
    const asked = { attempt: app.view.attempt, text: search.value.trim(), least: least.value };
    const wanted = chosen.length ? chosen : ranks ?? [];
    if (wanted.length) asked.ranks = wanted.join(',');
    if (within) asked.steps = within.join('..');
    try {
      const { lines, num_found: count } = await app.json(app.api('logs', asked), signal);
      if (signal.aborted) return;
      const isAll = !asked.text && !asked.least && !wanted.length && !within;
      setText(about, countText(count, lines.length, within, isAll));
      const text = JSON.stringify(lines);
      if (text !== shown) fill(list, lines, app);
      shown = text;
    } catch (error) {
      if (error.name === 'AbortError') return;
      setText(about, error.message);
      list.replaceChildren();
      shown = '';
    }
  }, NEWS_MS);
  const choose = (ranks) => {
    chosen = ranks;
    chip.hidden = !ranks.length;
    chip.textContent = `${ranks.length > 3 ? `${ranks.length} ranks` : `rank${ranks.length > 1 ? 's' : ''} ${ranks.join(', ')}`} \u00d7`;
    chip.setAttribute('aria-label', 'Show the lines of all ranks');
  };
  search.addEventListener('input', () => fetcher.soon());
  least.addEventListener('change', () => fetcher.now());
  withSteps.addEventListener('change', () => fetcher.now());
  chip.addEventListener('click', () => {
    choose([]);
    search.focus();
    fetcher.now();
  });
  element.addEventListener('toggle', () => fetcher.now());
  return {
    element,
    news: fetcher.news,
    soon: () => fetcher.soon(),
    show({ ranks = [], text = '' }) {
      choose(ranks);
      least.value = '';
      search.value = text.replace(/\.\.\.$/, '');
      element.open = true;
      fetcher.now();
      element.scrollIntoView({ block: 'nearest' });
      search.focus({ preventScroll: true });
    },
    destroy: () => fetcher.stop(),
  };
}

/** 3 lines in steps 4 to 9; the newest 300 of 12,000 lines. `isAll`: nothing was left out by the reader's choice. */
export function countText(count, shown, steps, isAll = false) {
  const many = `${count.toLocaleString('en')} line${count === 1 ? '' : 's'}`;
  const within = steps ? ` in step${steps[0] === steps[1] ? ` ${steps[0]}` : `s ${steps[0]} to ${steps[1]}`}` : '';
  if (!count) return isAll ? 'No lines were recorded.' : `No line${within} matches.`;
  return `${shown < count && shown >= 300 ? `the newest of ${many}` : many}${within}`;
}

/** Lines in order of time; the newest are in sight, and stay so unless the reader has scrolled up. */
function fill(list, lines, app) {
  const open = new Set([...list.querySelectorAll('details[open]')].map((one) => one.dataset.key));
  const isAtEnd = !list.childElementCount || list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_END_PX;
  const { scrollTop } = list;
  list.replaceChildren(...lines.map((line) => lineItem(line, app, open)));
  list.scrollTop = isAtEnd ? list.scrollHeight : scrollTop;
}

function lineItem({ ranks, who, at_s: at, step, level, text, where }, app, open) {
  const lines = text.trimEnd().split('\n');
  const isError = level === 'error' || level === 'fatal';
  const code = make('code', { class: isError ? 'is-error' : '' }, lastTold(lines));
  const head = [at === null ? [] : make('span', { class: 'quiet', title: utc(at) }, clock(at)), opener(ranks, who, step, app),
    step >= 0 ? make('span', { class: 'quiet' }, `step ${step}`) : []].flat();
  const key = `${where} ${at}`;
  const full = lines.length === 1 ? code
    : make('details', { 'data-key': key, open: open.has(key) }, make('summary', {}, code), make('pre', { tabindex: 0 }, lines.join('\n')));
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

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** 17:22:51.042, local time */
function clock(seconds) {
  const date = new Date(seconds * 1000);
  return `${date.toLocaleTimeString('en-GB')}.${String(date.getMilliseconds()).padStart(3, '0')}`;
}

const utc = (seconds) => `${new Date(seconds * 1000).toISOString().replace('T', ' ').replace('Z', '')} UTC`;
