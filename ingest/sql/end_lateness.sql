-- How much later the ranks of each host see the ends of collectives than the first member of their
-- group does, by blocks of steps: no member can leave before all have arrived, so on equal clocks all
-- see the end at nearly the same moment. On the aligned clock; on the ranks' own where that is unknown.
-- Only groups that span hosts; nothing where times start again in every step.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: blocks int = 12 into how many blocks the steps are divided
-- param: attempt int = newest
-- column: block  number of the block, from 0
-- column: first_step  its first step
-- column: last_step  its last step
-- column: group_id  identity of the group
-- column: host  where the members run; `rank N` where that is unknown
-- column: late_ms  by how much later the host's members see the ends, median over the steps, ms
-- column: num_ends  ends they saw
-- column: transfer_ms  mean transfer of an instance, ms: ends can differ by this much; NULL unknown
-- column: is_aligned  whether the clocks of the whole group are known
-- empty: no group spans hosts, or none of its collectives was recorded whole
WITH rank_hosts AS (
    SELECT rank, coalesce(nullif(host, ''), 'rank ' || rank) AS host
    FROM ranks WHERE attempt = $attempt
),
spread AS (
    SELECT group_id FROM (
        SELECT group_id, unnest(ranks) AS rank FROM group_members WHERE attempt = $attempt)
        JOIN rank_hosts USING (rank)
    GROUP BY group_id HAVING count(DISTINCT host) > 1
),
seen AS (
    SELECT c.group_id, host, step, sum(end_late_ns) / sum(num_ends) / 1e6 AS late_ms,
        sum(num_ends) AS num_ends, sum(transfer_ns) / sum(num_instances) / 1e6 AS transfer_ms,
        sum(num_unaligned) = 0 AS is_aligned
    FROM chosen_collectives($attempt) c SEMI JOIN spread USING (group_id) JOIN rank_hosts USING (rank)
    WHERE num_ends > 0 AND step >= 0 AND step BETWEEN $step_min AND $step_max
        AND $clock = 'absolute'
    GROUP BY c.group_id, host, step
),
extent AS (SELECT min(step) AS low, max(step) - min(step) + 1 AS num FROM seen)
SELECT (step - low) * $blocks // num AS block, min(step) AS first_step, max(step) AS last_step,
    group_id, host, median(late_ms) AS late_ms, CAST(sum(num_ends) AS BIGINT) AS num_ends,
    avg(transfer_ms) AS transfer_ms, bool_and(is_aligned) AS is_aligned
FROM seen, extent GROUP BY block, group_id, host ORDER BY block, group_id, host
