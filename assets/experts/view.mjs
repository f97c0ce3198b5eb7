/** The page Experts: loads by layer and expert, how uneven steps are, balance of ranks, times, ping-pong. */
import { onTheme, readTheme } from '../lib/canvas/canvas_theme.mjs';
import { make } from '../lib/dom.mjs';
import { makeFetcher } from '../lib/fetcher.mjs';
import { asSentence, cannotBeShown, sentence } from '../lib/sentences.mjs';
import { showLegend } from './legend.mjs';
import { LoadMap } from './load_map.mjs';
import { balancePanel, furthestTable, nothing, rankPanels } from './panels.mjs';
import { StepChart } from './step_chart.mjs';
import { aboutMap, expertLines, layerText, rowOf, seriesAbout, stepLines } from './text.mjs';

const NEWS_MS = 2000;

/** @param {HTMLElement} place @param {Object} app */
export function mount(place, app) {
  const stop = new AbortController();
  const canvases = {};
  let data = null;
  let isAskedFor = false;  // the user chose an expert: its lines are brought into sight
  place.replaceChildren(sentence('status', 'Reading the loads of the experts.'));
  const sections = Object.fromEntries(['map', 'expert', 'steps'].map((key) => [key, make('section', { class: 'panel', hidden: true })]));
  const [balance, ranks] = [make('div'), make('div', { class: 'experts-ranks' })];

  const asked = () => ({ attempt: app.view.attempt, steps: app.view.steps?.join('..') ?? null, finding: app.view.finding });
  const choose = (expert) => {
    isAskedFor = true;
    app.set({ expert });
  };
  const chooseRank = (rank) => app.set({ rank });
  const openStep = (step) => app.open({ page: 'timeline', steps: [step, step] });
  const expertUrl = ([layer, expert, router = null]) => app.api('experts/expert', { ...asked(), layer, expert, router });

  async function load(signal) {
    try {
      const { arrays, meta } = await app.arrays(app.api('experts', asked()), signal);
      if (signal.aborted) return;
      if (!meta.layers.length && !await anySteps(signal)) {
        place.replaceChildren(nothing());
        return;
      }
      data = { ...arrays, ...meta };
      app.showScope?.({ steps: meta.steps, why: meta.why });
      if (!sections.map.isConnected) place.replaceChildren(sections.map, sections.expert, sections.steps, balance, ranks);
      showMap();
      fill(balance, [balancePanel(data, chooseRank)]);
      markChosen();
      await Promise.all([loadExpert(signal), loadSteps(signal), loadRanks(signal)]);
    } catch (error) {
      if (error.name === 'AbortError') return;
      place.replaceChildren(cannotBeShown('Experts', error));
    }
  }

  function showMap() {
    const section = sections.map;
    section.hidden = false;
    if (!canvases.map) {
      section.append(head('Load of experts'));
      canvases.map = new LoadMap(section, { label: 'Load of experts, a row for each layer; arrow keys move, Enter shows the expert over steps', choose });
      section.append(make('div', { class: 'map-legend' }), make('div', { class: 'experts-furthest' }));
      drawLegend();
    }
    section.querySelector('header span').textContent = data.layers.length ? aboutMap(data) : 'no token was routed in these steps';
    fill(section.querySelector('.experts-furthest'), [furthestTable(data, choose)]);
    canvases.map.show(data);
    canvases.map.mark(app.view.expert);
    markChosen();
  }

  const drawLegend = () => showLegend(sections.map.querySelector('.map-legend'), readTheme());

  /** Whether loads were recorded in other steps than those shown. */
  async function anySteps(signal) {
    const { arrays } = await app.arrays(app.api('experts/steps', asked()), signal);
    return arrays.step.length > 0;
  }

  async function loadSteps(signal) {
    const section = sections.steps;
    try {
      const { arrays, meta } = await app.arrays(app.api('experts/steps', asked()), signal);
      if (signal.aborted) return;
      section.hidden = !arrays.step.length;
      if (!canvases.steps) {
        section.replaceChildren(head('Imbalance over steps'));
        canvases.steps = new StepChart(section, { label: 'MaxVio over steps; arrow keys move, Enter opens the step in the timeline', choose: openStep });
        section.append(key(['worst layer', 'worst'], ['median layer', 'middle'], ['fair router', 'fair']));
      }
      section.querySelector('header span').textContent = seriesAbout(meta);
      canvases.steps.show({
        step: arrays.step,
        lines: [{ values: arrays.middle, colour: 'quiet', wide: 1.5 }, { values: arrays.worst, colour: 'link', wide: 2 }],
        band: { low: arrays.fair.map(() => 0), high: arrays.fair },
        describe: (at) => stepLines(arrays, meta.layers, at),
      });
    } catch (error) {
      failed('steps', 'Imbalance over steps', error);
    }
  }

  async function loadExpert(signal) {
    const section = sections.expert;
    const chosen = app.view.expert;
    section.hidden = chosen === null;
    if (section.hidden) return;
    const about = data.layers[rowOf(data.layers, chosen)] ?? { layer: chosen[0] };
    const where = layerText(about);
    const title = `${where[0].toUpperCase()}${where.slice(1)}, expert ${chosen[1]} over steps`;
    try {
      const { arrays } = await app.arrays(expertUrl(chosen), signal);
      if (signal.aborted) return;
      if (!canvases.expert) {
        section.replaceChildren(head(title, 'load, 1 is the mean of the layer'));
        const close = make('button', { type: 'button', on: { click: () => app.set({ expert: null }) } }, 'Close');
        section.querySelector('header').append(close);
        canvases.expert = new StepChart(section, { label: 'Load of the expert over steps; arrow keys move, Enter opens the step in the timeline', choose: openStep });
        section.append(key(['load', 'worst'], ['fair router', 'fair']));
      }
      section.querySelector('h2').textContent = title;
      section.setAttribute('aria-label', title);
      canvases.expert.show({
        step: arrays.step,
        lines: [{ values: arrays.load, colour: 'link', wide: 2 }],
        band: { low: arrays.fair.map((one) => Math.max(1 - one, 0)), high: arrays.fair.map((one) => 1 + one) },
        describe: (at) => expertLines(arrays, at),
      });
      bringIntoSight(section);
    } catch (error) {
      failed('expert', title, error);
    }
  }

  function bringIntoSight(section) {
    if (isAskedFor) requestAnimationFrame(() => section.scrollIntoView({ block: 'nearest' }));  // once its canvas has its height
    isAskedFor = false;
  }

  /** One part of the page: its failure leaves the others. */
  function failed(part, title, error) {
    if (error.name === 'AbortError') return;
    canvases[part]?.destroy();
    canvases[part] = null;
    sections[part].hidden = false;
    sections[part].replaceChildren(head(title), make('p', { role: 'alert' }, asSentence(error.message)));
  }

  async function loadRanks(signal) {
    try {
      const found = await app.json(app.api('experts/ranks', asked()), signal);
      if (!signal.aborted) fill(ranks, rankPanels(found, chooseRank));
      markChosen();
    } catch (error) {
      if (error.name === 'AbortError') return;
      ranks.replaceChildren(cannotBeShown('The ranks', error));
    }
  }

  function markChosen() {
    const { rank, expert } = app.view;
    canvases.map?.mark(expert);
    for (const button of place.querySelectorAll('button[data-rank]')) button.setAttribute('aria-pressed', String(button.dataset.rank === String(rank)));
    for (const button of place.querySelectorAll('button[data-expert]')) button.setAttribute('aria-pressed', String(button.dataset.expert === expert?.join(',')));
  }

  const fetcher = makeFetcher(load, NEWS_MS);
  const fetchExpert = makeFetcher(loadExpert, NEWS_MS);
  const keyOf = () => JSON.stringify(asked());
  let [shown, chosen] = [keyOf(), String(app.view.expert)];
  function follow() {
    const [next, expert] = [keyOf(), String(app.view.expert)];
    if (next !== shown) fetcher.soon();
    else if (expert !== chosen && data) fetchExpert.now();
    [shown, chosen] = [next, expert];
    markChosen();
  }

  const stopTheme = onTheme(() => { if (canvases.map) drawLegend(); });
  app.addEventListener('run', fetcher.news, { signal: stop.signal });
  app.addEventListener('view', follow, { signal: stop.signal });
  fetcher.now();
  return {
    destroy() {
      stop.abort();
      stopTheme();
      fetcher.stop();
      fetchExpert.stop();
      for (const canvas of Object.values(canvases)) canvas?.destroy();
    },
  };
}

const head = (title, about = '') => make('header', {}, make('h2', {}, title), make('span', { class: 'quiet' }, about));

const key = (...entries) => make('p', { class: 'experts-key' }, entries.map(([text, kind]) => make('span', {}, make('i', { class: kind }), text)));

/** Replace what an element holds; what had the focus keeps it, by its data-key. */
function fill(element, content) {
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  element.replaceChildren(...content);
  if (focused) [...element.querySelectorAll('[data-key]')].find((one) => one.dataset.key === focused)?.focus();
}
