/**
 * Entry of every page: puts the views together. An element with data-view="NAME" gets the view of that
 * name, which is loaded when it is first needed and destroyed when the element leaves the page. A view
 * module exports mount(element, app, options), which returns {destroy()}.
 */
import { App } from './lib/app.mjs';
import { Live } from './lib/live.mjs';
import { PageControls } from './lib/page/page_controls.mjs';

/** Views that do not lie in NAME/view.mjs. */
const VIEWS = {
  'metric-picker': () => import('./ranks/metric_picker.mjs'),
  'rank-table': () => import('./ranks/rank_table.mjs'),
  'machine-changes': () => import('./machines/telling.mjs'),
  'finding-timeline': () => import('./timeline/finding_timeline.mjs'),
  'what-if': () => import('./whatif/view.mjs'),
  'when-seen': () => import('./lib/page/when_seen.mjs'),
};

const config = JSON.parse(document.getElementById('rankscope-config').textContent);
export const app = new App(config);
window.rankscope = app;
app.live = new Live(app);
app.pageControls = new PageControls(app);

const mounted = new Map();

async function mount(element) {
  if (mounted.has(element)) return;
  const name = element.dataset.view;
  const load = VIEWS[name] ?? (() => import(`./${name}/view.mjs`));
  mounted.set(element, null);
  try {
    const { mount: mountView } = await load();
    const options = JSON.parse(element.dataset.options ?? '{}');
    if (element.isConnected) mounted.set(element, mountView(element, app, options));
  } catch (error) {
    element.textContent = `This view could not be drawn: ${error.message}`;
    element.classList.add('failed');
    console.error(error);
  }
}

function mountViews() {
  for (const [element, view] of mounted) {
    if (!element.isConnected) {
      view?.destroy();
      mounted.delete(element);
    }
  }
  document.querySelectorAll('[data-view]').forEach(mount);
}

new MutationObserver(mountViews).observe(document.body, { childList: true, subtree: true });
mountViews();

document.addEventListener('click', (event) => {  // pages change without a reload, the view state stays
  const tab = event.target.closest?.('a[data-page]');
  if (!tab || event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  app.open({ page: tab.dataset.page });
});
