-- Spans of some ranks whose name contains a text, in order of time on the aligned clock.
-- reads: spans
-- param: ranks text required  global ranks, comma-separated
-- param: text text required  part of the name; capitals do not matter
-- param: rank_min int = 0 least of the ranks: only files with such ranks are opened
-- param: rank_max int = 2147483647 greatest of the ranks
-- param: attempt int = newest
-- param: top int = 500 most spans
-- column: rank  global rank
-- column: begin_ns  begin, aligned Unix ns; on the rank's own clock where its offset is unknown
-- column: dur_ns  wall time, ns
-- column: kind  one of the span kinds
-- column: name  what ran
-- column: step  optimizer step it began in
-- column: num_found  how many there are, these included
-- empty: no span of these ranks has such a name
WITH found AS (
    SELECT rank, ts_ns, greatest(dur_ns, 0) AS dur_ns, kind, name, step, count(*) OVER () AS num_found
    FROM spans_of($spans)
    WHERE attempt = $attempt AND rank BETWEEN $rank_min AND $rank_max
        AND rank IN (SELECT CAST(unnest(string_split($ranks, ',')) AS INTEGER))
        AND contains(lower(name), lower($text))
)
SELECT f.rank, f.ts_ns + coalesce(
        o.offset_ns + CAST(o.drift_ppb * ((f.ts_ns - o.ts_ns) / 1e9) AS BIGINT), 0) AS begin_ns,
    dur_ns, kind, name, step, num_found
FROM found f ASOF LEFT JOIN (SELECT * FROM clock_offsets WHERE attempt = $attempt) o
    ON f.rank = o.rank AND f.ts_ns >= o.valid_from_ns
ORDER BY begin_ns, f.rank LIMIT $top
