-- How often each rank arrived last at the collectives it took part in, over some steps: for profiles
-- of few steps, where ranks cannot be compared step by step. Every collective is read: choose few steps.
-- reads: collectives
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: rank  global rank
-- column: num_instances  collectives with all members recorded on aligned clocks; no sends or receives
-- column: num_last  of these, those at which it arrived last
-- column: chance  how often one of the members arrives last by chance: mean of 1 / members
-- column: wait_caused_ms  for the last arriver: (start - second latest start) x (members - 1), rank-ms
-- column: wait_ms  what it waited for later members itself, ms
-- empty: no such collective, or its members' clocks are not aligned
WITH rows AS (
    SELECT c.rank, c.group_id, c.seq, c.start_ns + o.offset_ns
            + CAST(o.drift_ppb * ((c.start_ns - o.ts_ns) / 1e9) AS BIGINT) AS start_al
    FROM (FROM collectives_of_steps($collectives, $attempt, $step_min, $step_max)
          WHERE op NOT IN ('send', 'recv')) c
    ASOF LEFT JOIN (SELECT * FROM clock_offsets WHERE attempt = $attempt) o
        ON c.rank = o.rank AND c.start_ns >= o.valid_from_ns
),
instances AS (
    SELECT group_id, seq, count(*) AS seen, max(start_al, 2) AS latest,
        arg_max(rank, start_al) AS last_rank
    FROM rows LEFT JOIN (SELECT * FROM group_members WHERE attempt = $attempt) g USING (group_id)
    GROUP BY group_id, seq
    HAVING bool_and(start_al IS NOT NULL) AND count(*) > 1
        AND count(*) >= coalesce(any_value(len(g.ranks)), 2)
)
SELECT rank, count(*) AS num_instances,
    count(*) FILTER (rank = last_rank AND latest[1] > latest[2]) AS num_last,
    avg(1 / seen) AS chance,
    sum(if(rank = last_rank, (latest[1] - latest[2]) * (seen - 1), 0)) / 1e6 AS wait_caused_ms,
    sum(latest[1] - start_al) / 1e6 AS wait_ms
FROM rows JOIN instances USING (group_id, seq) GROUP BY rank ORDER BY rank
