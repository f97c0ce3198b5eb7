/** The metrics of a run, requested once per run, and the metric a view shows. */

const lists = new Map();

/** @returns {Promise<Object[]>} app/views/ranks/scales.py METRICS, the default first */
export function metricsOf(app) {
  const { run } = app.view;
  if (!lists.has(run)) {
    const request = app.json(app.api('ranks/metrics')).then((answer) => answer.metrics);
    request.catch(() => lists.delete(run));
    lists.set(run, request);
  }
  return lists.get(run);
}

/** Name of the view's metric; null (the default) if it names none or one that does not exist. */
export async function metricOf(app) {
  const { metric } = app.view;
  if (metric === null) return null;
  return (await metricsOf(app)).some(({ name }) => name === metric) ? metric : null;
}
