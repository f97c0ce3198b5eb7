/** The table below the heat map: the cells furthest from their peers. */
import { make } from '../lib/dom.mjs';
import { formatValue } from '../lib/value_text.mjs';

/** Fill `details` with the worst cells, loaded when it is opened, or at once if it is open. */
export function showWorst(details, app, data, { metric: name, attempt, near }) {
  const { metric } = data.legend;
  const fill = async () => {
    try {
      const { cells } = await app.json(app.api('ranks/worst', { metric: name, attempt, near }));
      body.replaceChildren(cells.length ? table(cells, metric, app)
        : make('p', { class: 'quiet' }, 'Every cell lies within noise.'));
    } catch (error) {
      body.replaceChildren(make('p', { class: 'failed' }, error.message));
    }
  };
  const body = make('div', { class: 'scroll' });
  details.replaceChildren(make('summary', {}, 'The cells furthest from their peers, as a table'), body);
  details.ontoggle = () => details.open && fill();
  if (details.open) fill();
}

function table(cells, metric, app) {
  const head = ['rank', 'step', metric.title, "peers' median"]
    .map((text) => make('th', { scope: 'col', class: 'number' }, text));
  const rows = cells.map(({ rank, step, value, peers_ms: peers }) => {
    const link = make('a', { href: app.link({ page: 'timeline', rank, steps: [step, step] }) }, String(rank));
    link.addEventListener('click', (event) => {
      event.preventDefault();
      app.set({ rank, steps: [step, step] });
      app.open({ page: 'timeline' });
    });
    const texts = [String(step), formatValue(value, metric), formatValue(peers, { unit: 'ms', decimals: 1 })];
    return make('tr', {}, [make('td', { class: 'number' }, link), ...texts.map((text) => make('td', { class: 'number' }, text))]);
  });
  return make('table', {}, [make('caption', { class: 'visually-hidden' }, 'Cells furthest from their peers'),
    make('thead', {}, make('tr', {}, head)), make('tbody', {}, rows)]);
}
