-- What each rank made the other members of each of its groups wait, within one pipeline stage: who
-- waits for whom. Sums over some steps; members that caused no wait are left out.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: rank  global rank
-- column: group_id  identity of the group
-- column: axis  parallel axis, or unknown
-- column: ranks  members of the group; NULL where it was not described
-- column: wait_caused_ms  what the other members waited for it, rank-ms
-- empty: no such collective with aligned clocks on all members, or no rank waited
SELECT c.rank, c.group_id, max(coalesce(g.axis, 'unknown')) AS axis,
    max(g.ranks) AS ranks, sum(wait_caused_ns) / 1e6 AS wait_caused_ms
FROM collectives_of($attempt, NULL) c LEFT JOIN group_members g USING (attempt, group_id)
WHERE step BETWEEN $step_min AND $step_max
GROUP BY c.rank, c.group_id HAVING sum(wait_caused_ns) > 0 ORDER BY c.rank, wait_caused_ms DESC
