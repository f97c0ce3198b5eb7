/**
 * Culprits and victims of the finding in question: the one of the view, else the first urgent one,
 * else the first. Findings are a help: where they cannot be had, nobody is marked.
 * @returns {Promise<{culprits: number[], victims: number[]}>}
 */
export async function accused(app, signal) {
  const none = { culprits: [], victims: [] };
  try {
    const { findings = [] } = await app.json(app.api('findings', { attempt: app.view.attempt }), signal);
    return chosen(findings, app.view.finding) ?? none;
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    return none;
  }
}

/** Pure part of `accused`; null where there is no finding. */
export function chosen(findings, wanted) {
  const found = findings.find(({ id }) => wanted !== null && String(id) === wanted)
    ?? findings.find(({ urgent, severity }) => urgent === true || severity === 'urgent') ?? findings[0];
  if (!found) return null;
  return { culprits: found.culprit_ranks ?? [], victims: found.victim_ranks ?? [] };
}
