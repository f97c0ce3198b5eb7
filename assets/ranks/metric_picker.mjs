/** Chooses the metric of the grid and the heat map: one choice for the whole page, kept in the URL. */
import { make } from '../lib/dom.mjs';
import { metricOf, metricsOf } from '../lib/metric.mjs';

export function mount(element, app) {
  const id = `metric-${Math.random().toString(36).slice(2, 8)}`;
  const select = make('select', { id });
  const meaning = make('span', { class: 'quiet meaning' });
  const recent = make('button', { hidden: '' }, 'newest 20 steps');
  let metrics = [];
  const show = async () => {
    const wantedName = app.view.metric;
    const shownName = await metricOf(app).catch(() => null);
    const metric = metrics.find(({ name }) => name === shownName) ?? metrics[0];
    if (!metric || wantedName !== app.view.metric) return;
    select.value = metric.name;
    const isUnknown = wantedName !== null && wantedName !== metric.name;
    meaning.textContent = (isUnknown ? `There is no metric '${wantedName.slice(0, 40)}'; the page shows ${metric.title} instead. ` : '') + metric.meaning;
    recent.hidden = !app.view.steps;
  };
  select.addEventListener('change', () => app.set({ metric: select.value }, { push: true }));
  recent.addEventListener('click', () => app.set({ steps: null }));
  let shownKey = null;
  const follow = () => {  // brushing sends many changes
    recent.hidden = !app.view.steps;
    const { attempt, metric, finding } = app.view;
    const key = JSON.stringify([attempt, metric, finding]);
    if (key !== shownKey) show();
    shownKey = key;
  };
  app.addEventListener('view', follow);
  element.classList.add('ranks-bar');
  element.replaceChildren(make('label', { for: id }, 'Coloured by'), select, meaning, recent);
  metricsOf(app).then((loaded) => {
    metrics = loaded;
    select.replaceChildren(...metrics.map(({ name, title, unit }) => make('option', { value: name }, `${title} (${unit})`)));
    show();
  }).catch((error) => {
    meaning.textContent = error.message;
  });
  return {
    destroy() {
      app.removeEventListener('view', follow);
    },
  };
}
