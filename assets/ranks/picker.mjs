/** Which metric the grid and the heat map show; one choice for the whole page, kept in the URL. */
import { make } from './theme.mjs';

export function mount(element, app) {
  const request = new AbortController();
  const id = `metric-${Math.random().toString(36).slice(2, 8)}`;
  const select = make('select', { id });
  const meaning = make('span', { class: 'quiet meaning' });
  const recent = make('button', { hidden: '' }, 'newest 20 steps');
  let metrics = [];
  const show = () => {
    const metric = metrics.find(({ name }) => name === app.view.metric) ?? metrics[0];
    if (!metric) return;
    select.value = metric.name;
    meaning.textContent = metric.meaning;
    recent.hidden = !app.view.steps;
  };
  select.addEventListener('change', () => app.set({ metric: select.value }, { push: true }));
  recent.addEventListener('click', () => app.set({ steps: null }));
  app.addEventListener('view', show);
  element.classList.add('ranks-bar');
  element.replaceChildren(make('label', { for: id }, 'Coloured by'), select, meaning, recent);
  app.json(app.api('ranks/metrics'), request.signal).then((answer) => {
    metrics = answer.metrics;
    select.replaceChildren(...metrics.map(({ name, title, unit }) => make('option', { value: name }, `${title} (${unit})`)));
    show();
  }).catch((error) => {
    if (error.name !== 'AbortError') meaning.textContent = error.message;
  });
  return {
    destroy() {
      request.abort();
      app.removeEventListener('view', show);
    },
  };
}
