/** The timeline as a view: canvas, toolbar, tooltip, details, messages, table. */
import { make } from '../lib/dom.mjs';
import { makeLogPane } from '../lib/log_pane.mjs';
import { Flows } from './flows.mjs';
import { Ghost } from './ghost.mjs';
import { listen } from './input.mjs';
import { serverLoader, textLoader } from './lanes/tile_loader.mjs';
import { linkSelection } from './linked_selection.mjs';
import { makeCounters } from './panels/counter_tracks.mjs';
import { makeDetails } from './panels/details.mjs';
import { makeCapture } from './panels/kernel_capture.mjs';
import { makeTable, describeCanvas } from './panels/lanes_table.mjs';
import { showStates } from './panels/states.mjs';
import { makeHeading, makeLegend, makeToolbar } from './panels/toolbar.mjs';
import { makeTooltip } from './panels/tooltip.mjs';
import { makeSearch } from './search.mjs';
import { Timeline } from './timeline.mjs';
import { followView } from './view_follower.mjs';

/**
 * @param {HTMLElement} element @param {Object} app
 * @param {{compact?: boolean, height?: number, data?: string, ofFinding?: boolean}} options
 *   compact: heading, canvas and legend only; data: base64 of a tile, for a shared file without a
 *   server; ofFinding: its steps are those of a finding
 */
export function mount(element, app, options) {
  element.classList.add('timeline');
  const canvas = make('canvas', { tabIndex: 0, role: 'img', 'aria-label': 'Timeline, loading' });
  const body = make('div', { class: 'tl-body' }, canvas);
  const timeline = new Timeline(
    canvas, app, options.data ? textLoader(options.data) : serverLoader(app), options);
  const flows = new Flows(timeline);
  const parts = [makeTooltip(timeline, body), showStates(timeline, body), describeCanvas(timeline, element)];
  const ghost = new Ghost(timeline);
  const actions = keyActions(timeline, flows, ghost);
  const legend = makeLegend(timeline);
  if (options.compact || options.data) {
    const heading = options.data ? null : makeHeading(timeline);
    element.replaceChildren(...(heading ? [heading.element] : []), body, legend);
    if (heading) parts.push(heading);
  } else {
    const details = make('section', { class: 'tl-panel', 'aria-label': 'Details', hidden: true });
    const capture = makeCapture(timeline);
    const toolbar = makeToolbar(timeline, { search: makeSearch(timeline), capture: capture.opener });
    actions['/'] = () => toolbar.search.focus();
    const lanes = makeTable(timeline);
    const logs = logsOfSteps(app);
    const counters = makeCounters(timeline);
    element.replaceChildren(
      toolbar.element, capture.element, body, legend, details, counters.element, logs.element, lanes.element);
    parts.push(capture, lanes, logs, counters, makeDetails(timeline, details, (member, instance) => flows.go(member, instance)));
  }
  element.append(timeline.announcement);
  parts.push(ghost, { destroy: listen(timeline, actions, !options.compact) }, followView(timeline), linkSelection(timeline));
  const sizeObserver = new ResizeObserver(() => timeline.resize());
  sizeObserver.observe(body);
  const themeObserver = new MutationObserver(() => timeline.applyTheme());
  themeObserver.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
  timeline.resize();
  timeline.open();
  return {
    timeline,
    destroy() {
      sizeObserver.disconnect();
      themeObserver.disconnect();
      parts.forEach((part) => part.destroy());
      timeline.destroy();
    },
  };
}

/** Lines of the steps that are shown, or of all. */
function logsOfSteps(app) {
  const pane = makeLogPane(app, () => ({ steps: app.view.steps ?? null }));
  const stop = new AbortController();
  app.addEventListener('view', pane.soon, { signal: stop.signal });
  app.addEventListener('run', pane.news, { signal: stop.signal });
  return {
    element: pane.element,
    destroy() {
      stop.abort();
      pane.destroy();
    },
  };
}

function keyActions(timeline, flows, ghost) {
  return {
    G: () => ghost.toggle(),
    m: () => timeline.mark(), Escape: () => timeline.clear(),
    ']': () => flows.forth(), '[': () => flows.back(),
    p: () => {
      const rank = timeline.shown.selected?.rank ?? timeline.app.view.rank;
      if (rank !== null) timeline.pin(rank);
    },
  };
}
