-- From when to when some ranks have collectives, on the aligned clock.
-- reads: collectives
-- param: ranks text required  global ranks, comma-separated
-- param: rank_min int = 0 least of the ranks: only files with such ranks are opened
-- param: rank_max int = 2147483647 greatest of the ranks
-- param: attempt int = newest
-- column: begin_ns  begin of the first, aligned Unix ns; own clock where the offset is unknown
-- column: end_ns  when the last one began or was over
-- column: num_open  how many were not completed
-- empty: none of the ranks has a collective
WITH chosen AS (
    SELECT rank, start_ns, greatest(start_ns, end_ns) AS last_ns,
        end_ns < 0 AND state <> 'completed' AS is_open
    FROM rows_of($collectives)
    WHERE attempt = $attempt AND rank BETWEEN $rank_min AND $rank_max
        AND rank IN (SELECT CAST(unnest(string_split($ranks, ',')) AS INTEGER))
),
placed AS (
    SELECT c.*, coalesce(
        o.offset_ns + CAST(o.drift_ppb * ((c.start_ns - o.ts_ns) / 1e9) AS BIGINT), 0) AS shift_ns
    FROM chosen c ASOF LEFT JOIN (SELECT * FROM clock_offsets WHERE attempt = $attempt) o
        ON c.rank = o.rank AND c.start_ns >= o.valid_from_ns
)
SELECT min(start_ns + shift_ns) AS begin_ns, max(last_ns + shift_ns) AS end_ns,
    count(*) FILTER (is_open) AS num_open
FROM placed HAVING count(*) > 0
