-- Who made others wait: for the last arriver of each collective (start - second latest start) x
-- (members - 1), summed over some steps, worst first. The culprit is the rank that arrives late, not
-- the one whose calls take long. By default only groups within one pipeline stage count: in those
-- that cross stages (a pipeline's sends and receives, the norm over all ranks) the schedule also
-- makes ranks arrive last, and whole stages would be blamed. A rank that is late only there is not
-- found this way.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: top int = 10 how many ranks
-- param: axis text = null only groups of this axis (tp, pp, dp, ...), or `all`; default: within stages
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: rank  global rank
-- column: host  where it runs
-- column: wait_caused_ms  what the others would not have waited if it had arrived together with the
--   second last member, rank-ms
-- column: share  its share of all waiting caused in these steps, 0 to 1
-- column: wait_ms  what it waited itself, ms
-- column: lost_ratio  wait caused / (world size x step time): share of the job's time, where steps finished
-- column: num_instances  collectives it took part in
-- column: num_unknown  of these, those in which the last one is unknown: members missing or a clock not
--   aligned
-- empty: no such collective with aligned clocks on all members, so no rank can be named; or no rank waited
WITH per_rank AS (
    SELECT rank, sum(wait_caused_ns) AS caused_ns, sum(wait_ns) AS wait_ns,
        sum(num_instances) AS num_instances, sum(greatest(num_open, num_unaligned)) AS num_unknown
    FROM collectives_of($attempt, $axis) WHERE step BETWEEN $step_min AND $step_max GROUP BY rank
),
job AS (
    SELECT sum(window_ns) AS total_ns FROM chosen_steps($attempt)
    WHERE finished AND step BETWEEN $step_min AND $step_max
),
hosts AS (SELECT rank, arg_max(host, attempt) AS host FROM ranks GROUP BY rank)
SELECT rank, host, caused_ns / 1e6 AS wait_caused_ms,
    caused_ns / sum(caused_ns) OVER () AS share, wait_ns / 1e6 AS wait_ms,
    caused_ns / total_ns AS lost_ratio, CAST(num_instances AS BIGINT) AS num_instances,
    CAST(num_unknown AS BIGINT) AS num_unknown
FROM per_rank LEFT JOIN hosts USING (rank), job
WHERE caused_ns > 0 ORDER BY caused_ns DESC, rank LIMIT $top
