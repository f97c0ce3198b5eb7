/** The metrics there are, asked once per run, and the one a view shows. */

const lists = new Map();

/** @returns {Promise<Object[]>} app/views/scales.py METRICS, the default first */
export function metricsOf(app) {
  const { run } = app.view;
  if (!lists.has(run)) {
    const asked = app.json(app.api('ranks/metrics')).then((answer) => answer.metrics);
    asked.catch(() => lists.delete(run));
    lists.set(run, asked);
  }
  return lists.get(run);
}

/** Name of the view's metric; null (the default) where it names none, or one that there is not. */
export async function metricOf(app) {
  const { metric } = app.view;
  if (metric === null) return null;
  return (await metricsOf(app)).some(({ name }) => name === metric) ? metric : null;
}
