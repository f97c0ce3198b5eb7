/** Heading, choice of lanes, search and zoom buttons above the canvas, and the legend below. */
import { labelOf } from '../../lib/canvas/kind_colours.mjs';
import { formatNs } from '../../lib/canvas/time_scale.mjs';
import { make } from '../../lib/dom.mjs';
import { stepsText } from '../../lib/value_text.mjs';
import { MOST_RANKS } from '../../lib/view_state.mjs';
import { hasRed } from '../lanes/fault_time.mjs';
import { scopeOf } from '../view_follower.mjs';
import { button } from './dom.mjs';

const NOTE_MS = 6000;
const CHOICES = [
  ['', 'choose lanes'], ['default', 'pipeline + TP peers'], ['pipeline', 'pipeline group'],
  ['tp', 'TP group'], ['dp', 'DP group'], ['host', 'ranks of this host'], ['all', 'all ranks'],
];

/** `5`, `0-3,8` as ranks, null if the text is not a list of ranks. Pure. */
export function ranksOf(text, most = MOST_RANKS) {
  const ranks = new Set();
  for (const part of text.split(',').map((piece) => piece.trim()).filter(Boolean)) {
    const match = /^(\d{1,6})(?:\s*-\s*(\d{1,6}))?$/.exec(part);
    if (!match) return null;
    const [low, high] = [Number(match[1]), Number(match[2] ?? match[1])];
    if (high < low || ranks.size + high - low >= most) return null;
    for (let rank = low; rank <= high; rank++) ranks.add(rank);
  }
  return ranks.size ? [...ranks] : null;
}

/** Sentence about the accuracy of the lanes' clocks. Pure. */
export function clockSentence(meta) {
  if (meta.clock === 'per_step_relative') {
    return `times begin at 0 in every step: only step ${meta.relative_step} is drawn, and who waited for whom is unknown`;
  }
  const unknown = meta.lanes.filter((lane) => !lane.aligned).length;
  if (unknown) return `${unknown} of ${meta.lanes.length} clocks not aligned: do not compare those lanes by time`;
  const errors = meta.lanes.map((lane) => lane.err_ns).filter((error) => error !== null);
  if (errors.length === meta.lanes.length && Math.max(...errors) === 0) return 'one clock';
  return errors.length === meta.lanes.length ? `clocks within ${formatNs(Math.max(...errors))}`
    : 'clocks aligned, error unknown';
}

/** Number of lanes, steps, length of the window, accuracy of the clocks. */
function makeNote(timeline) {
  const note = make('span', { class: 'quiet tl-note' });
  const update = () => {
    const { tile } = timeline;
    if (!tile) return;
    const unknown = tile.meta.unknown.length ? ` \u00B7 no rank ${tile.meta.unknown.slice(0, 5).join(', ')} here` : '';
    const scope = scopeOf(timeline);
    note.textContent = `${timeline.geometry.ranks.length.toLocaleString('en')} of ${tile.meta.num_ranks.toLocaleString('en')} rank${tile.meta.num_ranks === 1 ? '' : 's'} \u00B7 `
      + `${scope ? `${stepsText(scope.steps)} \u00B7 ` : ''}${formatNs(timeline.window.end - timeline.window.begin)} \u00B7 ${clockSentence(tile.meta)}${unknown}`;
  };
  timeline.addEventListener('tile', update);
  timeline.addEventListener('window', update);
  return note;
}

/**
 * Why a timeline on another page shows other steps than its other panels; '' if it does not.
 * @param {?{steps: [number, number]}} own @param {?{steps: [number, number]}} page
 */
export function otherStepsText(own, page) {
  if (!own || !page || (page.steps[0] <= own.steps[0] && own.steps[1] <= page.steps[1])) return '';
  return `the finding is seen best here; the other panels show ${stepsText(page.steps)}`;
}

/** Heading of a timeline on another page, with a link to the timeline page. */
export function makeHeading(timeline) {
  const { app, options } = timeline;
  const stop = new AbortController();
  const why = make('span', { class: 'quiet tl-why' });
  const update = () => {
    const isOfFinding = options.ofFinding && app.view.t === null;
    why.textContent = isOfFinding ? otherStepsText(scopeOf(timeline), app.scope) : '';
  };
  timeline.addEventListener('tile', update);
  app.addEventListener('scope', update, { signal: stop.signal });
  const open = make('a', { href: app.link({ page: 'timeline' }) }, 'Open');
  open.addEventListener('click', (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    app.open({ page: 'timeline', ...(timeline.following ? {} : timeline.linkPatch()) });
  });
  const title = make('h2', {}, 'Timeline');
  const element = make('header', { class: 'tl-head' }, title, makeNote(timeline), why, open);
  return { element, destroy: () => stop.abort() };
}

/** @returns {{element: HTMLElement, search: HTMLInputElement}} */
export function makeToolbar(timeline, actions) {
  const { app } = timeline;
  const follow = button('Follow', () => timeline.follow(), { hidden: true, class: 'primary', title: 'Show the newest steps as they come' });
  const problem = make('span', { class: 'tl-problem', role: 'status' });
  const choice = make('select', { 'aria-label': 'Lanes', on: { change: () => chooseLanes(app, choice, problem) } },
    ...CHOICES.map(([value, text]) => make('option', { value }, text)));
  const typed = make('input', {
    placeholder: 'ranks: 0-3,8', 'aria-label': 'Ranks to show', size: 11,
    on: { change: () => {
      const ranks = ranksOf(typed.value);
      problem.textContent = ranks || !typed.value ? '' : `not a list of at most ${MOST_RANKS.toLocaleString('en')} ranks such as 0-3,8`;
      if (ranks) app.set({ ranks }, { push: true });
    } },
  });
  const search = make('input', { type: 'search', placeholder: 'Search names  /', 'aria-label': 'Search spans by name', size: 14 });
  const hits = make('span', { class: 'quiet', role: 'status' });
  actions.search(search, hits);
  const element = make('header', { class: 'tl-toolbar' },
    make('h2', {}, 'Timeline'), makeNote(timeline),
    make('span', { class: 'tl-tools' }, problem, choice, typed, search, hits,
      button('-', () => timeline.zoom(1.6), { 'aria-label': 'Zoom out', title: 'Zoom out (S)' }),
      button('+', () => timeline.zoom(1 / 1.6), { 'aria-label': 'Zoom in', title: 'Zoom in (W)' }),
      button('Fit', () => timeline.fit(), { title: 'Fit the selection or everything (F)' }), actions.capture, follow));
  timeline.addEventListener('note', ({ detail }) => {
    problem.textContent = detail;
    setTimeout(() => {
      if (problem.textContent === detail) problem.textContent = '';
    }, NOTE_MS);
  });
  const update = () => {
    const { tile } = timeline;
    if (tile) follow.hidden = timeline.following || tile.meta.state === 'finished';
  };
  timeline.addEventListener('tile', update);
  timeline.addEventListener('window', update);
  return { element, search };
}

async function chooseLanes(app, choice, problem) {
  const lanes = choice.value;
  problem.textContent = '';
  if (!lanes) return;
  try {
    const { ranks } = await app.json(app.api('timeline/lanes', { lanes, rank: app.view.rank, attempt: app.view.attempt }));
    app.set({ ranks }, { push: true });
  } catch (error) {
    problem.textContent = error.message;
  }
  choice.value = '';
}

/** What the level of detail leaves out, as text; empty if nothing. Pure. */
export function detailNote(meta) {
  const spans = meta.num_spans.toLocaleString('en');
  if (meta.detail === 'steps') {
    const what = meta.pool > 1 ? `${meta.pool} steps together` : 'each step as one';
    return `${spans} spans: ${what}, in the colour of the kind that took longest; zoom in for the times`;
  }
  if (meta.summed_steps) {
    const steps = `${meta.summed_steps.toLocaleString('en')} step${meta.summed_steps === 1 ? '' : 's'}`;
    return `the spans of ${steps} here were not recorded one by one (TRACE_HOOKS_SPANS_EVERY): each is one box, in the colour of the kind that took longest`;
  }
  if (!meta.merged) return '';
  return `${spans} spans; ${meta.merged.toLocaleString('en')} box${meta.merged === 1 ? ' merges' : 'es merge'} several of them: zoom in to separate them`;
}

/** The kinds on screen, each with colour and pattern. */
export function makeLegend(timeline) {
  const element = make('div', { class: 'tl-legend', 'aria-label': 'Legend' });
  const update = () => {
    const { tile } = timeline;
    const parts = tile.kindsShown().map((kind) => {
      const swatch = make('span', { class: `swatch ${/_comm$/.test(kind) ? 'comm' : kind}` });
      if (timeline.theme.kind[kind]) swatch.style.setProperty('--c', timeline.theme.kind[kind]);
      return make('span', {}, swatch, labelOf(kind, tile.meta));
    });
    if (tile.arrays.span_open?.includes(1)) {
      parts.push(make('span', {}, make('span', { class: 'swatch open' }), 'not completed'));
    }
    if (hasRed(tile, timeline.shown.roles, timeline.window)) {
      parts.push(make('span', {}, make('span', { class: 'swatch judged' }), 'culprit, and waiting for it'));
    }
    const note = detailNote(tile.meta);
    if (note) parts.push(make('span', { class: 'faint' }, note));
    element.replaceChildren(...parts);
  };
  timeline.addEventListener('tile', update);
  for (const event of ['theme', 'roles', 'window']) timeline.addEventListener(event, () => timeline.tile && update());
  return element;
}
