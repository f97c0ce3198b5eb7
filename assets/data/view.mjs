/** Who waits for batches, what the workers of data loaders do, the mixture of sources, and memory. */
import { make } from '../lib/dom.mjs';
import { makeFetcher } from '../lib/fetcher.mjs';
import { cannotBeShown, sentence } from '../lib/sentences.mjs';
import { doing, longestOf, megabytes, milliseconds, percent, sampleSize, saved, shownOf, standsOut } from './text.mjs';

const NEWS_MS = 2000;
const LEAST_FULL = 0.1;
/** Share of a step that fills a bar where nobody waits for more: bars of short waits stay short. */

export function mount(element, app) {
  let { attempt, steps } = app.view;
  const stop = new AbortController();
  element.replaceChildren(sentence('status', 'Reading what the data loaders did.'));

  const markSelected = () => {
    for (const button of element.querySelectorAll('button[value]')) {
      button.setAttribute('aria-pressed', String(button.value === String(app.view.rank)));
    }
  };

  const rankButton = (rank) => make('button',
    { type: 'button', value: rank, on: { click: () => app.set({ rank }) } }, `rank ${rank}`);

  function show(found) {
    const focused = document.activeElement?.closest?.('.data-loading button')?.value;
    element.replaceChildren(...parts(found, rankButton));
    if (focused) element.querySelector(`button[value="${focused}"]`)?.focus();
    markSelected();
  }

  const fetcher = makeFetcher(async (signal) => {
    try {
      const found = await app.json(app.api('data', { attempt, steps: steps ? steps.join('..') : null }), signal);
      if (!signal.aborted) show(found);
    } catch (error) {
      if (error.name === 'AbortError') return;
      element.replaceChildren(cannotBeShown('Data loading', error));
    }
  }, NEWS_MS);

  function follow() {
    const next = app.view;
    if (next.attempt !== attempt || String(next.steps) !== String(steps)) {
      ({ attempt, steps } = next);
      fetcher.soon();
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

function parts(all, rankButton) {
  const { waits, num_ranks: numRanks, workers, num_workers: numWorkers, sources, memory, num_memory: numMemory, why, dealing } = all;
  const { standby, num_standby: numStandby, redundant } = all;
  if (!waits.length && !workers.length && !sources.length && !dealing) return [nothing()];
  const found = [waitPanel(waits, numRanks, why, rankButton)];
  found.push(workers.length ? workerPanel(workers, numWorkers, rankButton) : noWorkers());
  found.push(...redundant.map((text) => sentence(null, text)));
  found.push(sources.length ? sourcePanel(sources) : noSources());
  if (dealing) found.push(dealingPanel(dealing, rankButton));
  if (memory.length) found.push(memoryPanel(memory, numMemory, rankButton));
  if (standby.length) found.push(standbyPanel(standby, numStandby, rankButton));
  return found;
}

const number = (text, className = '') => make('td', { class: `number ${className}` }, text);

const table = (titles, rows) => make('div', { class: 'scroll' }, make('table', {},
  make('thead', {}, make('tr', {}, titles.map((title) => (Array.isArray(title)
    ? make('th', { scope: 'col', class: 'number' }, title[0]) : make('th', { scope: 'col' }, title))))),
  make('tbody', {}, rows)));

/** A bar of a share of the greatest; `mark` is a second value, drawn as a line. */
function bar(share, mark = null) {
  const cell = make('td', { class: 'data-bar' }, make('span', { class: 'data-bar-fill' }));
  cell.firstChild.style.width = `${100 * Math.min(share, 1)}%`;
  if (mark !== null) {
    const line = make('span', { class: 'data-bar-mark' });
    line.style.left = `${100 * Math.min(mark, 1)}%`;
    cell.append(line);
  }
  return cell;
}

function panel(title, about, ...content) {
  return make('section', { class: 'panel', 'aria-label': title },
    make('header', {}, make('h2', {}, title), about ? make('span', { class: 'quiet' }, about) : []), ...content);
}

function waitPanel(waits, numRanks, why, rankButton) {
  const most = Math.max(...waits.map((row) => row.wait_ratio), LEAST_FULL);
  const rows = waits.map((row) => make('tr', {}, make('th', { scope: 'row' }, rankButton(row.rank)),
    number(milliseconds(row.data_wait_ms)), number(percent(row.wait_ratio), row.wait_ratio >= 0.05 ? 'is-slow' : ''),
    number(milliseconds(row.worst_ms)), number(String(row.worst_step)), bar(row.wait_ratio / most)));
  const sentence = why ? [make('p', { class: 'data-why' }, `Of the rank that waits longest: ${why}`)] : [];
  const about = ['time of a step in which it was blocked on its next batch', longestOf(waits.length, numRanks)].filter(Boolean).join('; ');
  return panel('Waiting for data', about, ...sentence,
    table(['', ['mean'], ['of the step'], ['longest'], ['in step'], ''], rows));
}

function workerPanel(workers, numWorkers, rankButton) {
  const rows = workers.map((row) => make('tr', {}, make('th', { scope: 'row' }, rankButton(row.rank)),
    number(String(row.worker)), make('td', {}, row.source),
    number(milliseconds(row.sample_ms), standsOut(row) ? 'is-slow' : ''), number(milliseconds(row.sample_p99_ms)),
    number(`${row.slower.toFixed(1)} x`), make('td', {}, doing(row)), number(row.samples.toLocaleString('en')),
    number(sampleSize(row.read_mb))));
  const about = ['slowest first', shownOf(workers.length, numWorkers, 'rows')].filter(Boolean).join('; ');
  return panel('Workers', about, table(['', ['worker'], 'source', ['a sample'], ['99 of 100'],
    ['of the usual'], 'does', ['samples'], ['read by a sample']], rows));
}

function sourcePanel(sources) {
  const most = Math.max(...sources.flatMap(({ ratio, planned }) => [ratio, planned ?? 0]), 1e-9);
  const rows = sources.map(({ source, ratio, planned, samples }) => make('tr', {}, make('th', { scope: 'row' }, source),
    number(percent(ratio), planned && ratio < 0.8 * planned ? 'is-slow' : ''),
    number(planned === null ? 'not stated' : percent(planned)), number(samples.toLocaleString('en')),
    bar(ratio / most, planned === null ? null : planned / most)));
  return panel('Mixture', 'share of the samples; the line in the bar is the plan',
    table(['source', ['drawn'], ['planned'], ['samples'], ''], rows));
}

function dealingPanel(dealing, rankButton) {
  const most = Math.max(...dealing.rows.flatMap((row) => [row.drawn_ms, row.dealt_ms ?? 0]), 1e-9);
  const rows = dealing.rows.map((row) => make('tr', {}, make('th', { scope: 'row' }, rankButton(row.rank)),
    number(milliseconds(row.drawn_ms)), number(row.measured_ms === null ? 'unknown' : milliseconds(row.measured_ms)),
    number(row.dealt_ms === null ? 'not possible' : milliseconds(row.dealt_ms)),
    bar(row.drawn_ms / most, row.dealt_ms === null ? null : row.dealt_ms / most)));
  const ratios = `The longest micro-batch of a step takes ${dealing.microbatches.toFixed(1)} times the mean one, the longest replica ${dealing.replicas.toFixed(2)} times (median of ${dealing.num_steps} steps).`;
  const about = [`step ${dealing.step}, slowest first; the line in the bar is the same batch dealt again`,
    shownOf(dealing.rows.length, dealing.num_rows, 'replicas')].filter(Boolean).join('; ');
  return panel('Dealing of sequences', about, make('p', { class: 'data-why' }, `${ratios} ${dealing.sentence} ${saved(dealing.saves)}`),
    table(['replica of', ['as drawn'], ['measured'], ['dealt again'], ''], rows));
}

function memoryPanel(memory, numMemory, rankButton) {
  const rows = memory.map((row) => make('tr', {}, make('th', { scope: 'row' }, rankButton(row.rank)),
    number(String(row.worker)), number(megabytes(row.begin_mb)), number(megabytes(row.end_mb)),
    number(`${row.end_mb >= row.begin_mb ? '+' : ''}${megabytes(row.end_mb - row.begin_mb)}`),
    number(`${Math.round(row.seconds)} s`), make('td', {}, row.is_shared ? 'shared pages divided' : 'resident')));
  const about = ['what grew most first', shownOf(memory.length, numMemory, 'workers')].filter(Boolean).join('; ');
  return panel('Memory of workers', about,
    table(['', ['worker'], ['first third'], ['last third'], ['grew by'], ['within'], 'counted'], rows));
}

const given = (value, unit) => (value === null ? 'not stated' : `${Math.round(value).toLocaleString('en')} ${unit}`);

function standbyPanel(standby, numStandby, rankButton) {
  const rows = standby.map((row) => make('tr', {}, make('th', { scope: 'row' }, rankButton(row.rank)),
    number(given(row.begin_samples, 'samples')), number(given(row.end_samples, 'samples')),
    number(given(row.newest_samples, 'samples')), number(given(row.newest_age_s, 's')), number(String(row.reports))));
  const about = ['farthest behind first', shownOf(standby.length, numStandby, 'ranks')].filter(Boolean).join('; ');
  return panel('Standby loaders', about,
    table(['', ['behind: first third'], ['last third'], ['now'], ['age of the snapshot'], ['reports']], rows));
}

const nothing = () => make('section', { class: 'panel sentence' },
  make('p', {}, make('strong', {}, 'No batch was recorded yet. '),
    'Batches of torch\u2019s DataLoader are recorded by themselves; a step that reads from another loader can state what it read:'),
  make('pre', {}, make('code', {}, 'tracer.batch(lengths=[512, 733], source=["web", "code"])')));

const noWorkers = () => sentence(null, 'The data loaders have no workers: ranks fetch their batches themselves. What that takes is in the column of the waits.');

const noSources = () => sentence(null, 'No batch says which sources it is from. Libraries that mix sources are read by themselves; of another mixture the job can state them with tracer.batch(source=, planned=). This panel then compares the share of each source with its planned share.');
