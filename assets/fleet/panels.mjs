/** Panels of the page Fleet, made from its answer. */
import { make } from '../lib/dom.mjs';
import { barCell, columns, histogram, scatter } from './charts.mjs';
import { comparedText, count, hours, NONE, parameters, percent, runs, slowdown, unknownText } from './text.mjs';

const REASONS_SHOWN = 3;

const number = (text) => make('td', { class: 'number' }, text);

export function panel(title, about, ...content) {
  return make('section', { class: 'panel', 'aria-label': title },
    make('header', {}, make('h2', {}, title), about ? make('span', { class: 'quiet' }, about) : []), ...content);
}

/** A table; headings in brackets are of numbers. */
export const table = (label, titles, rows, name = '') => make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': label }, make('table', { class: name },
  make('thead', {}, make('tr', {}, titles.map((title) => (Array.isArray(title)
    ? make('th', { scope: 'col', class: 'number' }, title[0]) : make('th', { scope: 'col' }, title))))),
  make('tbody', {}, rows)));

const quiet = (text) => make('p', { class: 'quiet' }, text);

export function slowdownPanel({ slowdowns }, straggling) {
  const reasons = Object.entries(slowdowns.unknown).slice(0, REASONS_SHOWN).map(([why, number_]) => quiet(unknownText(why, number_)));
  const title = 'Slowdown by stragglers';
  if (slowdowns.median === null) return panel(title, '', quiet('S is not known of any of these runs.'), ...reasons);
  const share = percent(slowdowns.num_straggling / slowdowns.num_runs);
  const lost = slowdowns.lost_share === null ? '' : ` A replay without stragglers saves ${percent(slowdowns.lost_share)} of the rank-hours of these runs.`;
  return panel(title, 'S: times as long as without stragglers, by replay',
    make('p', {}, `Median ${slowdown(slowdowns.median)}, 90th percentile ${slowdown(slowdowns.p90)}; at least ${straggling} in ${count(slowdowns.num_straggling)} of ${runs(slowdowns.num_runs)} (${share}).${lost}`),
    table(title, ['S', ['runs'], ['rank-hours'], ''], histogram(slowdowns, straggling), 'fleet-histogram'), ...reasons);
}

export function causePanel({ causes, lost_share: lostShare }) {
  const title = 'Lost, by cause';
  if (lostShare === null) return panel(title, '', quiet('The wall time of these runs is not recorded.'));
  if (!causes.length) return panel(title, '', quiet('No loss is known of these runs.'));
  const most = causes[0].share;
  const rows = causes.map((one) => make('tr', {}, make('th', { scope: 'row', class: 'fleet-text' }, one.text), number(percent(one.share)), number(hours(one.rank_hours)),
    number(count(one.num_runs)), barCell(most > 0 ? one.share / most : 0)));
  return panel(title, 'share of all rank-hours', table(title, ['cause', ['share'], ['rank-hours'], ['runs'], ''], rows));
}

export function timePanel({ over_time: overTime }, textOf) {
  const { periods, unit, num_without_time: without } = overTime;
  const note = without ? [quiet(`${runs(without)} without a known start ${without === 1 ? 'is' : 'are'} not shown.`)] : [];
  const title = 'Causes over time';
  if (!periods.length) return panel(title, '', quiet('No start of these runs is known.'));
  const rows = periods.filter((one) => one.num_runs).map((one) => {
    const named = Object.entries(one.lost).filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1])
      .map(([cause, value]) => `${textOf(cause)} ${one.rank_hours > 0 ? percent(value / one.rank_hours) : NONE}`);
    return make('tr', {}, make('th', { scope: 'row' }, one.first), number(count(one.num_runs)), number(hours(one.rank_hours)), make('td', { class: 'fleet-text' }, named.join(', ') || 'nothing known'));
  });
  const details = make('details', { 'data-key': 'periods' }, make('summary', {}, 'Table'), table(title, [`${unit} from`, ['runs'], ['rank-hours'], 'lost to'], rows));
  return panel(title, `by the ${unit} in which runs began, UTC; share of rank-hours`, ...columns(overTime, textOf), ...note, details);
}

export function hostPanel({ hosts }, fewest, runLink) {
  const { named, num_judged: judged, num_runs: numRuns, num_too_few: few } = hosts;
  const title = 'Hosts that are slow again';
  if (!judged) return panel(title, '', quiet(`No host is in as many as ${fewest} runs with other hosts, so there is nothing to compare.`));
  const rest = few ? ` ${count(few)} in fewer than ${fewest} runs ${few === 1 ? 'is' : 'are'} not judged.` : '';
  const about = `${comparedText(judged, numRuns)}${rest}`;
  if (!named.length) return panel(title, '', make('p', {}, 'None is slow more often than chance explains.'), quiet(about));
  const items = named.map((one) => make('li', {}, make('p', {}, make('strong', { class: one.is_place_possible ? 'fleet-perhaps' : 'fault' }, one.host), `${one.text.slice(one.host.length)}.`),
    make('p', { class: 'fleet-runs' }, one.runs.map(({ run, finding, title: text }) => runLink(run, finding, text)))));
  return panel(title, '', make('ul', { class: 'fleet-hosts' }, items), quiet(about));
}

export function modelPanel({ models }, points, runLink) {
  const title = 'MFU by model';
  const known = models.filter((one) => one.mfu !== null);
  if (!known.length) return panel(title, '', quiet('Not known of any of these runs: MFU needs the FLOPs of a step and devices whose peak is known.'));
  const rows = models.map((one) => make('tr', {}, make('th', { scope: 'row', class: 'fleet-text' }, one.model || 'not recorded'), number(parameters(one.parameters)),
    number(percent(one.mfu)), number(one.mfu === null ? NONE : `${percent(one.mfu_low)} to ${percent(one.mfu_high)}`), number(count(one.num_mfu)), number(slowdown(one.S))));
  const chart = points.length ? scatter(points, (run, about) => {
    const dot = runLink(run, null, about);
    dot.tabIndex = -1;
    dot.textContent = '';
    return dot;
  }) : [];
  return panel(title, 'against the number of parameters; a dot is a run', ...chart,
    table(title, ['model', ['parameters'], ['median MFU'], ['least to greatest'], ['runs'], ['median S']], rows));
}

export function problemPanel(problems) {
  const items = problems.map(({ run, why }) => make('li', {}, make('strong', {}, run), `: ${why}`));
  return panel('Runs without a summary', '', make('ul', { class: 'fleet-problems' }, items));
}
