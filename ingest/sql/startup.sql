-- What each rank did from the start of its process to the end of its first step, in order.
-- reads: startup
-- param: attempt int = newest
-- column: rank  global rank
-- column: phase  before (the hooks), imports, hooks, rendezvous, groups, communication, device, model, restore, compile, data, other
-- column: what  what ran, and where in the job's own code
-- column: how  measured, sampled five times a second, or process: from /proc
-- column: begin_s  since the first process of the attempt started, on the aligned clock where there is one, s
-- column: seconds  how long, s
-- column: cpu_s  CPU time of the process in it, s; NULL unknown
-- empty: the start-up was not recorded: the run was imported, or has hooks before 1.7 or without `startup`
WITH clocks AS (
    SELECT rank, arg_max(offset_ns, valid_from_ns) AS offset_ns FROM clock_offsets
    WHERE attempt = $attempt GROUP BY rank
),
raw AS (
    SELECT rank, phase, what, how, ts_ns + coalesce(offset_ns, 0) AS begin_ns,
        begin_ns + dur_ns AS end_ns, nullif(cpu_ns, -1) AS cpu_ns,
        max(end_ns) OVER (PARTITION BY rank ORDER BY begin_ns, end_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS past_ns
    FROM rows_of($startup) LEFT JOIN clocks USING (rank) WHERE attempt = $attempt
),
own AS (
    SELECT *, greatest(begin_ns, coalesce(past_ns, begin_ns)) AS from_ns,
        lag(phase) OVER w IS DISTINCT FROM phase OR lag(what) OVER w IS DISTINCT FROM what
            OR from_ns > past_ns AS is_new
    FROM raw WHERE end_ns > coalesce(past_ns, begin_ns)
    WINDOW w AS (PARTITION BY rank ORDER BY begin_ns, end_ns)
),
numbered AS (
    SELECT *, count(*) FILTER (is_new) OVER (PARTITION BY rank ORDER BY begin_ns, end_ns) AS number
    FROM own
)
SELECT rank, any_value(phase) AS phase, any_value(what) AS what, any_value(how) AS how,
    (min(from_ns) - min(min(from_ns)) OVER ()) / 1e9 AS begin_s,
    (max(end_ns) - min(from_ns)) / 1e9 AS seconds, sum(cpu_ns) / 1e9 AS cpu_s
FROM numbered GROUP BY rank, number ORDER BY rank, min(from_ns)
