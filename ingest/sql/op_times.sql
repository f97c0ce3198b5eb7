-- How long each named operation takes per step on some ranks of each pipeline stage (the first and the
-- last), over the newest 200 of the steps: whether one of them became slow everywhere.
-- reads: spans
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: rank  global rank
-- column: step  optimizer step it began in
-- column: name  what ran, with * for its numbers: the same of every layer
-- column: op_ms  wall time of all spans of this name, ms; what they hold inside counts, too
-- column: typical_ms  the same if each were as long as the median of its kind in the step: what single ones wait does not count
-- column: depth  nesting of the outermost of them, 0 nothing around it
-- column: num_spans  how many there were
-- empty: none of these ranks recorded compute, copies or host work in these steps
WITH chosen AS (
    SELECT unnest([min(rank), max(rank)]) AS rank FROM ranks WHERE attempt = $attempt
    GROUP BY pp ORDER BY 1 LIMIT 16
),
newest AS (
    FROM whole_steps($attempt, $step_min, $step_max)
    ORDER BY step DESC LIMIT 200
), by_kind AS (
    SELECT rank, step, regexp_replace(name, '[0-9]+', '*', 'g') AS name, kind,
        sum(greatest(dur_ns, 0)) / 1e6 AS op_ms,
        count(*) * quantile_disc(greatest(dur_ns, 0), 0.5) / 1e6 AS typical_ms,
        min(depth) AS depth, count(*) AS num_spans
    FROM whole_spans_of($spans)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max
        AND step IN (SELECT step FROM newest) AND rank IN (SELECT rank FROM chosen)
        AND kind IN ('forward', 'backward', 'wgrad', 'optimizer', 'kernel', 'memcpy', 'host')
    GROUP BY ALL
)
SELECT rank, step, name, sum(op_ms) AS op_ms, sum(typical_ms) AS typical_ms, min(depth) AS depth,
    sum(num_spans)::BIGINT AS num_spans
FROM by_kind GROUP BY rank, step, name ORDER BY rank, step, name
