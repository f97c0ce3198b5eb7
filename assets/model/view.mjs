/** The page Model: its sub-views Health, Inspect, Perturb and Prompt, one at a time. */
import { make } from '../lib/dom.mjs';
import { HealthView } from './health/health.mjs';
import { InspectView } from './inspect/inspect.mjs';
import { PerturbView } from './perturb/perturb.mjs';
import { PromptView } from './prompt/prompt.mjs';
import { setModel } from './shared/model_state.mjs';

const VIEWS = [['health', 'Health', HealthView], ['inspect', 'Inspect', InspectView], ['perturb', 'Perturb', PerturbView], ['prompt', 'Prompt', PromptView]];

export function mount(element, app, { first = 'health' } = {}) {
  const body = make('div', { class: 'model-body' });
  const buttons = VIEWS.map(([name, title]) => {
    const button = make('button', { 'aria-pressed': 'false' }, title);
    button.addEventListener('click', () => setModel(app, { view: name }, { push: true }));
    return button;
  });
  let shown = null;
  let view = null;
  const follow = () => {
    if (app.view.page !== 'model') return;
    const indexOf = (wantedName) => VIEWS.findIndex(([name]) => name === wantedName);
    const wanted = indexOf(app.view.model.view) < 0 ? indexOf(first) : indexOf(app.view.model.view);
    if (wanted === shown) return;
    view?.destroy();
    shown = wanted;
    buttons.forEach((button, index) => button.setAttribute('aria-pressed', String(index === wanted)));
    body.replaceChildren();
    view = new VIEWS[wanted][2](body, app);
  };
  element.replaceChildren(make('nav', { class: 'model-views', 'aria-label': 'views of the model' }, buttons), body);
  app.addEventListener('view', follow);
  follow();
  return {
    destroy() {
      app.removeEventListener('view', follow);
      view?.destroy();
    },
  };
}
