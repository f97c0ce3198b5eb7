/** The metrics of a run, requested once per run, and the metric a view shows. */
import { matchingFinding } from './culprits.mjs';

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

/**
 * Name of the view's metric, else that of the finding it names; null (the default) if there is neither, or
 * the metric does not exist.
 */
export async function metricOf(app) {
  const metric = app.view.metric ?? await metricOfFinding(app);
  if (metric === null) return null;
  return (await metricsOf(app)).some(({ name }) => name === metric) ? metric : null;
}

async function metricOfFinding(app) {
  if (app.view.finding === null) return null;
  try {
    const { findings = [], metrics = {} } = await app.json(app.api('findings', { attempt: app.view.attempt }));
    return metrics[matchingFinding(findings, app.view.finding)?.id] ?? null;
  } catch {  // the page shows the default metric, and says elsewhere that the server cannot be reached
    return null;
  }
}
