/** Counters of the machine under the selected rank, below the lanes and on their time axis; loaded when opened. */
import { make } from '../../lib/dom.mjs';
import { makeFetcher } from '../../lib/fetcher.mjs';
import { linePoints, valueText } from '../../lib/canvas/samples.mjs';

const NEWS_MS = 1000;
const HEIGHT = 30;
const MOST = 24;
const SVG = 'http://www.w3.org/2000/svg';

/** @param {import('../timeline.mjs').Timeline} timeline */
export function makeCounters(timeline) {
  const { app } = timeline;
  const title = make('summary', {}, 'Counters of the machine');
  const content = make('div', { class: 'tl-counters' });
  const element = make('details', { class: 'tl-panel' }, title, content);
  const stop = new AbortController();
  const rankNow = () => timeline.shown.selected?.rank ?? app.view.rank ?? timeline.geometry.ranks[0] ?? 0;

  const fetcher = makeFetcher(async (signal) => {
    if (!element.open || !timeline.window) return;
    const [rank, window] = [rankNow(), { ...timeline.window }];
    const t = [Math.max(Math.round(window.begin), 0), Math.max(Math.round(window.end), 1)].join('..');
    try {
      const found = await app.json(app.api('machines/host', { attempt: app.view.attempt, rank, t }), signal);
      if (!signal.aborted) show(rank, window, found);
    } catch (error) {
      if (error.name !== 'AbortError') content.textContent = error.message;
    }
  }, NEWS_MS);

  function show(rank, window, { host, lines }) {
    title.textContent = `Counters of the machine: rank ${rank}${host ? ` on ${host}` : ''}`;
    const own = lines.filter((line) => !line.ranks.length || line.ranks.includes(rank)).slice(0, MOST);
    content.replaceChildren(...(own.length ? own.map((line) => track(line, window, timeline.geometry))
      : [make('p', { class: 'quiet' }, 'No sample of this machine in this window.')]));
  }

  element.addEventListener('toggle', fetcher.now, { signal: stop.signal });
  for (const name of ['tile', 'window', 'select']) timeline.addEventListener(name, fetcher.soon, { signal: stop.signal });
  return {
    element,
    destroy() {
      stop.abort();
      fetcher.stop();
    },
  };
}

function track(line, window, { left, width }) {
  const room = Math.max(width - left, 40);
  const known = line.value.filter((value) => value !== null);
  const range = `${valueText(Math.min(...known), line.unit)} to ${valueText(Math.max(...known), line.unit)}`;
  const who = line.ranks.length ? '' : line.who === 'host' ? '' : `${line.who}, `;
  const svg = document.createElementNS(SVG, 'svg');
  const attributes = { viewBox: `0 0 ${room} ${HEIGHT}`, width: room, height: HEIGHT, role: 'img', 'aria-label': `${line.title}, ${who}${range}` };
  for (const [name, value] of Object.entries(attributes)) svg.setAttribute(name, value);
  for (const part of linePoints(line.at_s, line.value, [window.begin / 1e9, window.end / 1e9], room, HEIGHT)) {
    const shape = document.createElementNS(SVG, 'polyline');
    const points = part.length > 1 ? part : [part[0], [part[0][0] + 2, part[0][1]]];
    shape.setAttribute('points', points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' '));
    svg.append(shape);
  }
  const row = make('div', { class: 'tl-counter' }, make('span', { class: 'quiet', title: line.doc }, `${line.title}, ${who}${range}`), svg);
  row.style.paddingLeft = `${left}px`;
  return row;
}
