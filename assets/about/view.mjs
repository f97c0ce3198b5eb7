/** The panel about the run: follows news of it, and has the form that corrects its layout. */
import { layoutForm } from './layout_form.mjs';

const NEWS_MS = 10_000;
const ANSWER_MS = 5000;
let correctedAt = -Infinity;  // the panel that comes soon after takes the focus from the form that goes

function focusLayout() {
  correctedAt = -Infinity;
  document.querySelector('.about-run [data-part="layout"] > summary')?.focus();
}

export function mount(panel, app) {
  let form = null;
  let timer = null;
  let told = -Infinity;
  const layout = () => panel.querySelector('details[data-part="layout"]');

  const ask = () => {
    timer = null;
    told = performance.now();
    const open = [...panel.querySelectorAll('details[open][data-part]')].map(({ dataset }) => dataset.part);
    app.publish('about-news', { shown: panel.dataset.key, open, at: Date.now() });
  };
  const corrected = () => {
    correctedAt = performance.now();
    if (panel.isConnected) ask();
    else focusLayout();  // news were faster than the answer
  };
  const onRun = ({ detail }) => {
    if (detail.run === app.view.run && timer === null) timer = setTimeout(ask, Math.max(0, told + NEWS_MS - performance.now()));
  };
  const open = () => {
    const part = layout();
    if (part?.open && form === null) form = layoutForm(part.querySelector('.layout-form'), app, corrected);
  };

  panel.addEventListener('toggle', open, true);  // toggle does not bubble
  app.addEventListener('run', onRun);
  open();
  if (!panel.dataset.key) ask();  // of a great job it comes after the page
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
