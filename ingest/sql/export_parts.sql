-- How many spans each step of some ranks has, and from when to when it lasts: exports divide
-- themselves into parts by this.
-- reads: spans
-- param: ranks text = null global ranks, comma-separated; null: all
-- param: rank_min int = 0 least of the ranks: only files with such ranks are opened
-- param: rank_max int = 2147483647 greatest of the ranks
-- param: step_min int = -9223372036854775807 first step
-- param: step_max int = 9223372036854775807 last step
-- param: attempt int = newest
-- column: step  optimizer step
-- column: num_spans  spans that begin in it
-- column: begin_ns  first begin of a span or of the step, aligned Unix ns
-- column: first_ns  first begin on the ranks' own clocks, ns
-- column: last_ns  last begin on the ranks' own clocks, ns
-- column: end_ns  last end on the ranks' own clocks, ns
-- empty: the ranks have neither spans nor steps there
WITH recorded AS (
    SELECT rank, step, ts_ns, dur_ns, 1 AS is_span FROM rows_of($spans) WHERE attempt = $attempt
    UNION ALL
    SELECT rank, step, start_ns, dur_ns, 0 FROM step_rows WHERE attempt = $attempt
),
chosen AS (
    SELECT * FROM recorded
    WHERE rank BETWEEN $rank_min AND $rank_max AND step BETWEEN $step_min AND $step_max
        AND ($ranks IS NULL
            OR rank IN (SELECT CAST(unnest(string_split(CAST($ranks AS VARCHAR), ',')) AS INTEGER)))
)
SELECT step, CAST(sum(is_span) AS BIGINT) AS num_spans,
    min(c.ts_ns + coalesce(
        o.offset_ns + CAST(o.drift_ppb * ((c.ts_ns - o.ts_ns) / 1e9) AS BIGINT), 0)) AS begin_ns,
    min(c.ts_ns) AS first_ns, max(c.ts_ns) AS last_ns, max(c.ts_ns + greatest(dur_ns, 0)) AS end_ns
FROM chosen c ASOF LEFT JOIN (SELECT * FROM clock_offsets WHERE attempt = $attempt) o
    ON c.rank = o.rank AND c.ts_ns >= o.valid_from_ns
GROUP BY step ORDER BY step
