/** The panel about the run: updates itself with new data and holds the form that corrects the layout. */
import { layoutForm } from './layout_form.mjs';

const NEWS_MS = 10_000;
const ANSWER_MS = 5000;
let correctedAt = -Infinity;  // a panel drawn soon after takes the focus over from the form it replaces

function focusLayout() {
  correctedAt = -Infinity;
  document.querySelector('.about-run [data-part="layout"] > summary')?.focus();
}

export function mount(panel, app) {
  let form = null;
  let timer = null;
  let requestedMs = -Infinity;
  const layout = () => panel.querySelector('details[data-part="layout"]');

  const requestNews = () => {
    timer = null;
    requestedMs = performance.now();
    const open = [...panel.querySelectorAll('details[open][data-part]')].map(({ dataset }) => dataset.part);
    app.publish('about-news', { shown: panel.dataset.key, open, at: Date.now() });
  };
  const onCorrected = () => {
    correctedAt = performance.now();
    if (panel.isConnected) requestNews();
    else focusLayout();  // Dash has drawn the new panel before the answer arrived
  };
  const onRun = ({ detail }) => {
    if (detail.run === app.view.run && timer === null) timer = setTimeout(requestNews, Math.max(0, requestedMs + NEWS_MS - performance.now()));
  };
  const open = () => {
    const part = layout();
    if (part?.open && form === null) form = layoutForm(part.querySelector('.layout-form'), app, onCorrected);
  };

  panel.addEventListener('toggle', open, true);  // toggle does not bubble
  app.addEventListener('run', onRun);
  open();
  if (!panel.dataset.key) requestNews();  // the panel of a large job is filled after the page is drawn
  if (performance.now() - correctedAt < ANSWER_MS) focusLayout();
  return {
    destroy() {
      clearTimeout(timer);
      form?.destroy();
      panel.removeEventListener('toggle', open, true);
      app.removeEventListener('run', onRun);
    },
  };
}
