-- What the collectives of each group cost over some steps.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: group_id  identity of the group
-- column: name  the framework's name for it
-- column: axis  parallel axis, or unknown
-- column: num_members  ranks in it; NULL where the group was not described
-- column: num_instances  instances seen by at least one member, counted once per member
-- column: num_open  of these not complete or with members missing
-- column: num_unaligned  of these without aligned clocks
-- column: wait_ms  waiting of all members, ms; NULL unknown
-- column: transfer_ms  mean transfer of an instance and member, ms; NULL unknown
-- column: num_bytes  bytes of all members; NULL unknown
-- column: bandwidth_gb_s  bus bandwidth: bytes the algorithm moves over a member's link / transfer, 1e9
--   B/s, with the factors of NCCL-tests (all_reduce 2(n-1)/n, all_gather, reduce_scatter and
--   all_to_all (n-1)/n of the total, broadcast, reduce, send and recv 1); NULL unknown
-- empty: no collectives were recorded in these steps
WITH summed AS (
    SELECT attempt, group_id, sum(num_instances) AS num_instances, sum(num_open) AS num_open,
        sum(num_unaligned) AS num_unaligned, sum(wait_ns) AS wait_ns,
        sum(transfer_ns) AS transfer_ns, sum(num_bytes) AS num_bytes,
        sum(bus_bytes) / nullif(sum(bus_ns), 0) AS bandwidth_gb_s
    FROM chosen_collectives($attempt) WHERE step BETWEEN $step_min AND $step_max
    GROUP BY attempt, group_id
)
SELECT group_id, g.name, coalesce(g.axis, 'unknown') AS axis, len(g.ranks) AS num_members,
    CAST(num_instances AS BIGINT) AS num_instances, CAST(num_open AS BIGINT) AS num_open,
    CAST(num_unaligned AS BIGINT) AS num_unaligned, wait_ns / 1e6 AS wait_ms,
    transfer_ns / num_instances / 1e6 AS transfer_ms, CAST(num_bytes AS BIGINT) AS num_bytes,
    bandwidth_gb_s
FROM summed LEFT JOIN group_members g USING (attempt, group_id)
ORDER BY wait_ms DESC NULLS LAST, group_id
