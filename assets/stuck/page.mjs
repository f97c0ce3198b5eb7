/** The panels of the Stuck page, on the page and in a shared file. */
import { make } from '../lib/dom.mjs';
import { detailsOf, headlineOf, isStuck, whenText } from './messages.mjs';
import { commandList, lastLines, rankTable, requestTable } from './parts.mjs';
import { whatRanksDo } from './stacks.mjs';
import { whoWaits } from './waits.mjs';

const MOST_OPEN_LINES = 30;

/**
 * @param {Object} found answer of the server @param {Object} app
 * @param {{showLines?: (finding: Object) => void, shownAbove?: string}} options showLines: opens the log at a
 *   finding's lines, not in a shared file; shownAbove: id of the finding that the file shows above this
 */
export function stuckPanels(found, app, { showLines = null, shownAbove = null } = {}) {
  const { findings, lines, commands, stacks } = found;
  const part = (key, title, data, build, aside) => ({ key, data, build: () => panel(title, build(), aside) });
  const last = lines.length ? part('lines', 'Last lines', lines, () => lastLines(lines)) : null;
  const panels = [
    headlineOf(found) === null ? null
      : { key: 'head', data: [found.state, found.status, found.run_state, detailsOf(found)], build: () => headline(found, showLines !== null) },
    ...findings.map((finding) => (finding.id === shownAbove ? wholeLine(finding)
      : { key: finding.id, data: finding, build: () => why(finding, app, showLines) })),
  ];
  if (!isStuck(found)) return [...panels, last].filter(Boolean);
  const { tree, circles, waits, merged, grid, requests } = found;
  return [
    ...panels,
    part('waits', 'Who waits for whom', [tree, circles, tree.length || circles.length ? null : waits], () => whoWaits(found)),
    commands.length ? part('commands', 'What to try next', commands, () => commandList(commands)) : null,
    last,
    stacks.some(isKnown) ? part('stacks', 'What ranks do', [stacks, merged, grid], () => whatRanksDo(found)) : null,
    requests.length ? part('requests', 'Who has posted what', requests, () => requestTable(requests), postedNote(requests)) : null,
    part('ranks', 'Where every rank stands', found.ranks, () => rankTable(found, app), note(found)),
  ].filter(Boolean);
}

/** Whether something is known of what these ranks do: in the first seconds no stack has been read. */
const isKnown = ({ frames, activity }) => frames.length > 0 || !activity.startsWith('unknown');

function headline(found, isLive) {
  const details = detailsOf(found);
  return make('section', { class: `panel stuck-head ${isStuck(found) ? 'is-stuck' : 'is-well'}`, 'aria-label': 'Who waits' },
    make('p', {}, make('strong', {}, headlineOf(found))),
    details.map((text) => make('p', { class: 'stuck-detail' }, text)),
    make('p', { class: 'quiet stuck-when' }, whenText(found, found.now_s, isLive)));
}

function why(finding, app, showLines) {
  const { title, text, confidence, next_step: next, alternatives, evidence, line, who, num_who: count, hosts } = finding;
  const names = who.join(', ') + (count > who.length ? ` and ${count - who.length} more` : '');
  return make('section', { class: 'panel stuck-why', 'aria-label': title },
    make('h2', {}, title),
    make('p', {}, text),
    fact('Who', names || (hosts.length ? `host ${hosts.join(', ')}` : '')),
    line.includes('\n') ? traceback(line, finding.id)
      : evidence.slice(1).map((sentence) => make('p', { class: 'quiet' }, sentence)),
    fact('Try next', next),
    alternatives.length ? fact('Not excluded', alternatives.join(' ')) : [],
    make('p', { class: 'stuck-tools' }, make('span', { class: 'quiet' }, `confidence ${confidence}`), tools(finding, app, showLines)));
}

function wholeLine({ id, line }) {
  return line.includes('\n') ? { key: id, data: line, build: () => make('section', { class: 'panel' }, traceback(line, id)) } : null;
}

const fact = (name, text) => (text ? make('p', {}, make('span', { class: 'quiet' }, `${name}: `), text) : []);

function traceback(text, id) {
  const lines = text.trimEnd().split('\n');
  const key = `traceback ${id}`;
  return make('details', { 'data-key': key, open: lines.length <= MOST_OPEN_LINES },
    make('summary', { 'data-key': `${key} head` }, `The whole traceback, ${lines.length} lines`),
    make('pre', { tabindex: 0 }, lines.join('\n')));
}

function tools({ ranks, step, cause, id }, app, showLines) {
  if (!showLines) return [];
  const button = (text, act) => make('button', { type: 'button', 'data-key': `${text} ${id}`, on: { click: act } }, text);
  return [
    cause ? button('Show its lines in the log', () => showLines({ ranks, cause })) : [],
    ranks.length ? button('Show it in the timeline', () => app.open({
      page: 'timeline', rank: ranks[0], finding: id, steps: step > 0 ? [step - 1, step] : null,
    })) : [],
  ].flat();
}

function panel(title, content, aside = null) {
  return make('section', { class: 'panel', 'aria-label': title },
    make('header', {}, make('h2', {}, title), aside ?? []), content);
}

function note({ ranks, num_ranks: all }) {
  return ranks.length < all ? make('span', { class: 'quiet' }, `${ranks.length} of ${all} ranks`) : null;
}

function postedNote(requests) {
  const open = requests.filter(({ not_posted: lacking }) => lacking).length;
  const text = open ? `${open} of ${requests.length} open requests not posted by all` : `${requests.length} open requests, posted by all that are known`;
  return make('span', { class: 'quiet' }, text);
}
