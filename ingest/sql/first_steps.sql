-- Where the start-up of each rank ends: its first step, against its later ones. Read with startup.
-- reads: startup, checkpoints, heartbeats
-- param: attempt int = newest
-- column: rank  global rank; every rank of the attempt that has left a file or a row
-- column: host  where it runs; NULL unknown
-- column: begin_s  when its process started, since the first one of the attempt did, s; NULL not recorded
-- column: first_step  its first finished step; NULL none yet
-- column: step_begin_s  when that began, on the same clock, s
-- column: step_end_s  when that ended, s
-- column: usual_step_s  median of its next steps, at most 100, s; NULL with fewer than three
-- column: seen_s  its last sign of life before that, s; NULL none
-- column: num_groups  process groups that it is in
-- column: job_groups  process groups of all ranks together
-- column: read_s  what reads of checkpoints took before its first step ended, s; 0 none seen
-- column: read_bytes  bytes of these; NULL unknown
-- empty: the attempt has left no file of a rank
WITH clocks AS (
    SELECT rank, arg_max(offset_ns, valid_from_ns) AS offset_ns FROM clock_offsets
    WHERE attempt = $attempt GROUP BY rank
),
begun AS (
    SELECT rank, min(ts_ns) AS begin_ns, max(ts_ns + dur_ns) AS end_ns FROM rows_of($startup)
    WHERE attempt = $attempt GROUP BY rank
),
earliest AS (SELECT rank, min(step) AS step FROM step_rows WHERE attempt = $attempt GROUP BY rank),
numbered AS (
    SELECT rank, s.step, start_ns, dur_ns, row_number() OVER (PARTITION BY rank ORDER BY s.step) AS number
    FROM step_rows s JOIN earliest e USING (rank)
    WHERE attempt = $attempt AND s.step <= e.step + 100
),
firsts AS (
    SELECT rank, min(step) AS step, arg_min(start_ns, number) AS start_ns,
        arg_min(start_ns + dur_ns, number) AS end_ns,
        CASE WHEN count(*) > 3 THEN median(dur_ns) FILTER (number > 1) END AS usual_ns
    FROM numbered GROUP BY rank
),
beats AS (
    SELECT rank, max(ts_ns) AS beat_ns FROM rows_of($heartbeats)
    WHERE attempt = $attempt AND step < 0 GROUP BY rank
),
reads AS (
    SELECT c.rank, sum(dur_ns) AS read_ns,
        CASE WHEN min(num_bytes) >= 0 THEN CAST(sum(num_bytes) AS BIGINT) END AS read_bytes
    FROM rows_of($checkpoints) c LEFT JOIN firsts f USING (rank)
    WHERE attempt = $attempt AND action = 'read' AND (f.end_ns IS NULL OR c.ts_ns < f.end_ns)
    GROUP BY c.rank
),
memberships AS (
    SELECT rank, count(*) AS num_groups
    FROM (SELECT unnest(ranks) AS rank FROM group_members WHERE attempt = $attempt) GROUP BY rank
),
everyone AS (
    SELECT rank FROM ranks WHERE attempt = $attempt UNION SELECT rank FROM begun
    UNION SELECT rank FROM firsts UNION SELECT rank FROM beats
),
placed AS (
    SELECT e.rank, nullif(r.host, '') AS host, coalesce(offset_ns, 0) AS shift_ns, b.begin_ns + shift_ns AS begin_ns, f.step,
        f.start_ns + shift_ns AS start_ns, f.end_ns + shift_ns AS end_ns, f.usual_ns,
        greatest(b.end_ns, f.end_ns, beat_ns) + shift_ns AS seen_ns, num_groups, read_ns, read_bytes
    FROM everyone e LEFT JOIN (SELECT * FROM ranks WHERE attempt = $attempt) r USING (rank)
        LEFT JOIN begun b USING (rank) LEFT JOIN firsts f USING (rank) LEFT JOIN clocks USING (rank)
        LEFT JOIN beats USING (rank) LEFT JOIN reads USING (rank) LEFT JOIN memberships USING (rank)
)
SELECT rank, host, (begin_ns - zero_ns) / 1e9 AS begin_s, step AS first_step,
    (start_ns - zero_ns) / 1e9 AS step_begin_s, (end_ns - zero_ns) / 1e9 AS step_end_s,
    usual_ns / 1e9 AS usual_step_s, (seen_ns - zero_ns) / 1e9 AS seen_s,
    coalesce(num_groups, 0) AS num_groups,
    (SELECT count(*) FROM group_members WHERE attempt = $attempt) AS job_groups,
    coalesce(read_ns, 0) / 1e9 AS read_s, read_bytes
FROM placed, (SELECT coalesce(min(begin_ns), min(start_ns)) AS zero_ns FROM placed) ORDER BY rank
