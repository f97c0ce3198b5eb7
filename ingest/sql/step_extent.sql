-- From when to when some ranks have steps, on the aligned clock, and the newest step all have finished.
-- param: ranks text required  global ranks, comma-separated
-- param: attempt int = newest
-- column: begin_ns  begin of the first step, aligned Unix ns; own clock where the offset is unknown
-- column: end_ns  end of what is recorded last
-- column: first_step  first optimizer step
-- column: last_step  last optimizer step, finished or not
-- column: finished_step  newest step that every one of these ranks with data has finished; NULL none
-- column: before_step  the finished step before that one; NULL none
-- column: num_ranks  how many of the ranks have data
-- empty: none of the ranks has data
WITH cells AS (
    SELECT rank, step, begin_ns, end_ns, finished FROM step_rollup
    WHERE attempt = $attempt
        AND rank IN (SELECT CAST(unnest(string_split($ranks, ',')) AS INTEGER))
),
placed AS (
    SELECT c.*, coalesce(
        o.offset_ns + CAST(o.drift_ppb * ((c.begin_ns - o.ts_ns) / 1e9) AS BIGINT), 0) AS shift_ns
    FROM cells c ASOF LEFT JOIN (SELECT * FROM clock_offsets WHERE attempt = $attempt) o
        ON c.rank = o.rank AND c.begin_ns >= o.valid_from_ns
),
whole AS (
    SELECT min(begin_ns + shift_ns) AS begin_ns, max(end_ns + shift_ns) AS end_ns,
        min(step) AS first_step, max(step) AS last_step, count(DISTINCT rank) AS num_ranks
    FROM placed
),
done AS (
    SELECT max(step, 2) AS steps FROM (
        SELECT step FROM placed WHERE finished AND step >= 0
        GROUP BY step HAVING count(*) = (SELECT num_ranks FROM whole))
)
SELECT begin_ns, end_ns, first_step, last_step, steps[1] AS finished_step, steps[2] AS before_step,
    num_ranks
FROM whole, done WHERE num_ranks > 0
