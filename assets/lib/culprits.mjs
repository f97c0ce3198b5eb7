/**
 * The ranks that a finding judges, and the steps in which it does. Red marks nothing else.
 *
 * @typedef {Object} Roles
 * @property {number[]} culprits @property {number[]} victims ranks that wait for a culprit
 * @property {?[number, number]} steps first and last step of the finding, Infinity while it goes on;
 *   null without a finding
 */

/** @type {Roles} */
export const NO_ROLES = Object.freeze({ culprits: [], victims: [], steps: null });

/**
 * Roles of the view's finding, else of the first urgent one, else of the first. If the findings cannot be
 * loaded, no rank is marked. A shared file brings its roles along.
 * @returns {Promise<Roles>}
 */
export async function loadCulprits(app, signal) {
  if (app.roles) return app.roles;
  try {
    const { findings = [] } = await app.json(app.api('findings', { attempt: app.view.attempt }), signal);
    return culpritsOf(findings, app.view.finding) ?? NO_ROLES;
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    return NO_ROLES;
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
  return { culprits: finding.culprit_ranks ?? [], victims: finding.victim_ranks ?? [], steps: stepsOf(finding) };
}

/** A finding that goes on has no last step yet: newer steps belong to it, too. */
function stepsOf({ first_step: first = -Infinity, last_step: last = Infinity, ongoing = false }) {
  return [first, ongoing ? Infinity : last];
}

/**
 * The roles that hold for steps: nobody before a finding begins, or after it is over.
 * @param {Roles} roles @param {?[number, number]} steps first and last; null: the run has no steps
 */
export function rolesIn(roles, steps) {
  if (!roles.steps || !steps) return roles;
  return steps[0] <= roles.steps[1] && roles.steps[0] <= steps[1] ? roles : NO_ROLES;
}

/**
 * The roles that hold for the steps that a view shows. Where it chooses none, they are the newest, or those of
 * a finding: the step under way belongs to them, in which a rank may have stopped.
 */
export function rolesShown(roles, view, steps) {
  return rolesIn(roles, view.steps || !steps ? steps : [steps[0], Infinity]);
}

/** The finding with this id, else the nearest in time with the same ranks and fault. */
export function matchingFinding(findings, wantedId) {
  if (wantedId === null) return undefined;
  const split = (id) => [id.slice(0, Math.max(id.lastIndexOf('-'), 0)), Number(id.slice(id.lastIndexOf('-') + 1)) || 0];
  const [who, step] = split(wantedId);
  const distance = ({ id }) => Math.abs(split(String(id))[1] - step);
  return findings.filter(({ id }) => String(id) === wantedId || (who && split(String(id))[0] === who))
    .sort((a, b) => distance(a) - distance(b))[0];
}
