-- How long data moved in every step: in the collectives of each group, and between each two ranks that
-- sent to each other. Transfer = earliest end - latest start: waiting for late members is not in it.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: group_id  identity of the group
-- column: rank  the lower one of two ranks; -1 collectives of all members
-- column: peer  the higher one; -1 collectives of all members
-- column: step  optimizer step
-- column: num_instances  instances in the step
-- column: num_bytes  bytes of one member; NULL unknown
-- column: transfer_ms  their transfers, ms; NULL where members are missing or clocks not aligned
-- column: longest_ms  the longest transfer of an instance, ms; NULL like transfer_ms
-- column: wait_ms  the most that any member waited for later ones, ms; NULL like transfer_ms
-- empty: no collectives were recorded in these steps
WITH channels AS (
    SELECT *, if(peer < 0, -1, least(rank, peer)) AS low, if(peer < 0, -1, greatest(rank, peer)) AS high
    FROM chosen_collectives($attempt)
    WHERE step >= 0 AND step BETWEEN $step_min AND $step_max
)
SELECT group_id, low AS rank, high AS peer, step, max(num_instances) AS num_instances,
    max(num_bytes) AS num_bytes, max(transfer_ns) / 1e6 AS transfer_ms,
    max(longest_ns) / 1e6 AS longest_ms, max(wait_ns) / 1e6 AS wait_ms
FROM channels GROUP BY group_id, low, high, step
