/**
 * Culprits and victims of the view's finding, else of the first urgent one, else of the first. If the
 * findings cannot be loaded, no rank is marked.
 * @returns {Promise<{culprits: number[], victims: number[]}>}
 */
export async function loadCulprits(app, signal) {
  const none = { culprits: [], victims: [] };
  try {
    const { findings = [] } = await app.json(app.api('findings', { attempt: app.view.attempt }), signal);
    return culpritsOf(findings, app.view.finding) ?? none;
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    return none;
  }
}

/**
 * Pure part of `loadCulprits`; null if there is no finding. The first step of a finding may move while
 * its run is live: the same ranks with the same fault are the same finding (as banner.py has it).
 */
export function culpritsOf(findings, wantedId) {
  const finding = matchingFinding(findings, wantedId)
    ?? findings.find(({ urgent, severity }) => urgent === true || severity === 'urgent') ?? findings[0];
  if (!finding) return null;
  return { culprits: finding.culprit_ranks ?? [], victims: finding.victim_ranks ?? [] };
}

/** The finding with this id, else the nearest in time with the same ranks and fault. */
function matchingFinding(findings, wantedId) {
  if (wantedId === null) return undefined;
  const split = (id) => [id.slice(0, Math.max(id.lastIndexOf('-'), 0)), Number(id.slice(id.lastIndexOf('-') + 1)) || 0];
  const [who, step] = split(wantedId);
  const distance = ({ id }) => Math.abs(split(String(id))[1] - step);
  return findings.filter(({ id }) => String(id) === wantedId || (who && split(String(id))[0] === who))
    .sort((a, b) => distance(a) - distance(b))[0];
}
