-- What the watchdogs saw last of each rank while ranks made no progress, and at the look before; in
-- imported runs, what the tool that wrote the files saw. Of a rank that has gone since, when it still
-- stood at the same place: others may have waited for it there. A look that took no stacks, such as
-- the one when another rank is found gone, has those of the looks before it at the same place.
-- reads: looks, heartbeats
-- param: attempt int = newest
-- column: rank  global rank
-- column: host  where it runs; NULL unknown
-- column: step  it was in
-- column: ts_ns  when it was looked at, Unix ns on the aligned clock where there is one
-- column: pid  process id on its host
-- column: process  R, S, D, T or Z as in proc(5), gone, silent, or empty where unknown
-- column: phase  of its last heartbeat
-- column: beat_age_ms  since its last heartbeat; NULL unknown
-- column: quiet_ms  since it last began a step or entered a collective; NULL unknown
-- column: longest_ms  the longest of its recent times between two of these; 0 none known
-- column: num_entered  collectives and messages entered so far; -1 unknown
-- column: call  kernel function in which its main thread waits; empty unknown
-- column: stack  main thread, one frame per line, innermost first; NULL unknown
-- column: threads  innermost frames of other threads; NULL unknown
-- column: since_ms  since the look before, in which it stood at the same place; NULL none
-- column: cpu_ms  CPU time it has used since then; NULL unknown
-- column: io_bytes  bytes it has read and written since then; NULL unknown
-- column: still_ms  since bytes last flowed (64 KiB/s), or since the first look there; NULL unknown
-- column: earlier_stack  main thread at that look; NULL unknown
-- column: earlier_process  state of its process at that look; NULL none
-- column: source  what saw it: watchdog, flight_recorder (its stack is that of the last call), nccl_ras,
--   py_spy or faulthandler
-- column: has_moved  whether it has begun a later step since
-- empty: no rank was without progress for long
WITH here AS (
    SELECT * FROM rows_of($looks) WHERE attempt = $attempt
    QUALIFY (step, num_entered) = last_value((step, num_entered)) OVER (
        PARTITION BY rank ORDER BY ts_ns ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
),
looked AS (
    SELECT *, row_number() OVER (PARTITION BY rank ORDER BY process IN ('gone', 'Z'), ts_ns DESC) AS age,
        io_bytes >= 0 AND (io_bytes - lag(io_bytes) OVER w) / greatest(ts_ns - lag(ts_ns) OVER w, 1) * 1e9 >= 65536
            AS flows
    FROM here WINDOW w AS (PARTITION BY rank ORDER BY ts_ns)
),
stacks AS (
    SELECT rank, stack, row_number() OVER (PARTITION BY rank ORDER BY ts_ns DESC) AS age
    FROM here WHERE stack IS NOT NULL
),
still AS (
    SELECT rank, coalesce(max(ts_ns) FILTER (WHERE flows), min(ts_ns)) AS since_ns FROM looked
    WHERE io_bytes >= 0 AND process NOT IN ('gone', 'Z') GROUP BY rank
),
beats AS (
    SELECT h.rank, max(h.step) AS step FROM rows_of($heartbeats) h
    JOIN looked l ON l.rank = h.rank AND l.age = 1 AND h.ts_ns > l.ts_ns
    WHERE h.attempt = $attempt GROUP BY h.rank
),
clocks AS (
    SELECT rank, arg_max(offset_ns, valid_from_ns) AS offset_ns FROM clock_offsets
    WHERE attempt = $attempt GROUP BY rank
)
SELECT l.rank, nullif(r.host, '') AS host, l.step, l.ts_ns + coalesce(c.offset_ns, 0) AS ts_ns, l.pid,
    l.process, l.phase, CASE WHEN l.beat_age_ns >= 0 THEN l.beat_age_ns / 1e6 END AS beat_age_ms,
    CASE WHEN l.quiet_ns >= 0 THEN l.quiet_ns / 1e6 END AS quiet_ms, greatest(l.longest_ns, 0) / 1e6 AS longest_ms, l.num_entered, l.call,
    CASE WHEN l.beat_age_ns < 5e9 THEN coalesce(l.stack, s1.stack) ELSE l.stack END AS stack, l.threads,
    (l.ts_ns - e.ts_ns) / 1e6 AS since_ms,
    CASE WHEN l.cpu_ns >= 0 AND e.cpu_ns >= 0 THEN (l.cpu_ns - e.cpu_ns) / 1e6 END AS cpu_ms,
    CASE WHEN l.io_bytes >= 0 AND e.io_bytes >= 0 THEN l.io_bytes - e.io_bytes END AS io_bytes,
    (l.ts_ns - s.since_ns) / 1e6 AS still_ms,
    CASE WHEN l.stack IS NULL AND l.beat_age_ns < 5e9 THEN s2.stack ELSE e.stack END AS earlier_stack,
    e.process AS earlier_process,
    coalesce(l.source, 'watchdog') AS source, coalesce(b.step > l.step, false) AS has_moved
FROM looked l LEFT JOIN looked e
    ON e.rank = l.rank AND e.age = 2 AND e.step = l.step AND e.num_entered = l.num_entered
LEFT JOIN still s ON s.rank = l.rank
LEFT JOIN stacks s1 ON s1.rank = l.rank AND s1.age = 1 LEFT JOIN stacks s2 ON s2.rank = l.rank AND s2.age = 2
LEFT JOIN beats b ON b.rank = l.rank LEFT JOIN clocks c ON c.rank = l.rank
LEFT JOIN (SELECT * FROM ranks WHERE attempt = $attempt) r ON r.rank = l.rank
WHERE l.age = 1 AND l.rank >= 0 ORDER BY l.rank
