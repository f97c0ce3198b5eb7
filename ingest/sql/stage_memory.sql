-- Memory of pipeline stages: what the forward of a micro-batch leaves allocated on the device, and the
-- most that the device had allocated. The hooks read the former in steps 1 to 3 and every 64th.
-- reads: spans, memory
-- param: step_min int = 1 first step whose forwards count
-- param: step_max int = 3 last step whose forwards count
-- param: attempt int = newest
-- column: rank  global rank
-- column: stage  its place on the pipeline axis; NULL unknown
-- column: kept_bytes  median over micro-batches, B; with several chunks the sum over them
-- column: peak_bytes  since the start of the rank, B; NULL unknown
-- column: num  forwards that were read
-- empty: no forward of a micro-batch says what it keeps: no CUDA device, or a trace that the hooks did not write
WITH forwards AS (
    SELECT rank, step, microbatch, chunk,
        try_cast(regexp_extract(args, '^\{"kept":(-?\d+)\}$', 1) AS BIGINT) AS kept
    FROM whole_spans_of($spans)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max AND kind = 'forward'
        AND starts_with(args, '{"kept":')
),
parts AS (  -- the loss of the last stage is a span of its own
    SELECT rank, chunk, sum(kept) AS kept, count(*) AS num FROM forwards
    GROUP BY rank, step, microbatch, chunk
),
chunks AS (SELECT rank, median(kept) AS kept, sum(num) AS num FROM parts GROUP BY rank, chunk),
peaks AS (
    SELECT rank, max(peak) AS peak FROM rows_of($memory) WHERE attempt = $attempt AND peak >= 0
    GROUP BY rank
)
SELECT c.rank, CAST(any_value(r.pp) AS INTEGER) AS stage, sum(c.kept)::DOUBLE AS kept_bytes,
    any_value(p.peak) AS peak_bytes, CAST(sum(c.num) AS BIGINT) AS num
FROM chunks c LEFT JOIN peaks p USING (rank)
    LEFT JOIN (SELECT rank, pp FROM ranks WHERE attempt = $attempt) r USING (rank)
GROUP BY c.rank ORDER BY c.rank
