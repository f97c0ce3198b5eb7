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

/**
 * Pure part of `accused`; null where there is no finding. The first step of a finding may move while
 * its run is live: the same ranks with the same fault are the same finding (as banner.py has it).
 */
export function chosen(findings, wanted) {
  const found = same(findings, wanted)
    ?? findings.find(({ urgent, severity }) => urgent === true || severity === 'urgent') ?? findings[0];
  if (!found) return null;
  return { culprits: found.culprit_ranks ?? [], victims: found.victim_ranks ?? [] };
}

/** The finding of that id, else of the same ranks and fault the one that begins nearest. */
function same(findings, wanted) {
  if (wanted === null) return undefined;
  const split = (id) => [id.slice(0, Math.max(id.lastIndexOf('-'), 0)), Number(id.slice(id.lastIndexOf('-') + 1)) || 0];
  const [who, step] = split(wanted);
  const away = ({ id }) => Math.abs(split(String(id))[1] - step);
  return findings.filter(({ id }) => String(id) === wanted || (who && split(String(id))[0] === who))
    .sort((one, other) => away(one) - away(other))[0];
}
