/** Sentences about a rank, for tooltips and screen readers. Pure. */
import { IN_NOISE } from '../lib/canvas/colour.mjs';
import { formatValue } from '../lib/value_text.mjs';
import { UNKNOWN } from './layout.mjs';

/**
 * @param {number} i index of the rank
 * @param {{places: Object, layout: Object, values: Object,
 *   roles: {culprits: Set<number>, victims: Set<number>}, standings: Map<number, string[]>}} shown
 * @returns {string[]} the first one names the rank
 */
export function rankSentences(i, { places, layout, values, roles, standings = new Map() }) {
  const { metric } = values.legend;
  const rank = places.rank[i];
  const where = ['pp', 'dp', 'cp', 'tp']
    .filter((axis) => places[axis][i] !== UNKNOWN && layout.axes[axis])
    .concat(Object.keys(layout.experts ?? {}).filter((axis) => places[axis][i] !== UNKNOWN))
    .map((axis) => `${axis} ${places[axis][i]}`).join(', ');
  const host = layout.hosts[places.host[i]];
  const peers = values.peers[i];
  return [
    `rank ${rank}`, where, host && `host ${host}`,
    values.steps !== null && `${metric.title} ${formatValue(values.value[i], metric)}`,
    Number.isFinite(peers) && `peers' median ${formatValue(peers, metric)}`,
    values.code[i] === IN_NOISE && 'within noise', roles.culprits.has(rank) && 'named as culprit',
    roles.victims.has(rank) && 'waits for the culprit', ...(standings.get(rank) ?? []),
  ].filter(Boolean);
}
