-- How many samples of each source a job has trained on, all ranks together, and the share that it
-- planned: as the job states it (tracer.batch), or the library that mixes the sources.
-- reads: batch_sources
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: source  its name
-- column: samples  samples of it
-- column: ratio  its share of all samples
-- column: planned  its share as planned, in the newest batch that states one; NULL unknown
-- column: spread  standard error of `ratio`, from how it differs between batches
-- column: batches  batches that state their sources
-- column: all_samples  samples of all sources
-- column: first_step  first step with such a batch
-- column: last_step  last step with one
-- empty: no job and no library states the sources of a batch
WITH stated AS (
    SELECT rank, ts_ns, step, source, samples, planned FROM rows_of($batch_sources)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max
),
batch AS (
    SELECT rank, step, min(ts_ns) AS ts_ns, CAST(sum(samples) AS BIGINT) AS samples FROM stated GROUP BY rank, step
),
total AS (
    SELECT CAST(sum(samples) AS BIGINT) AS samples, count(*) AS batches, min(step) AS first_step, max(step) AS last_step FROM batch
),
source AS (
    SELECT source, CAST(sum(samples) AS BIGINT) AS samples, arg_max(planned, ts_ns) FILTER (planned IS NOT NULL) AS planned
    FROM stated GROUP BY source
),
share AS (
    SELECT source.source, source.samples / greatest(total.samples, 1) AS ratio FROM source, total
),
of_batch AS (
    SELECT s.source, b.rank, b.step, b.samples AS num,
        coalesce(sum(r.samples), 0) - any_value(s.ratio) * b.samples AS beyond
    FROM share s CROSS JOIN batch b
    LEFT JOIN stated r ON r.source = s.source AND r.rank = b.rank AND r.step = b.step
    GROUP BY s.source, b.rank, b.step, b.samples
),
spread AS (
    SELECT source, sqrt(sum(beyond * beyond)) / greatest(sum(num), 1) AS spread FROM of_batch GROUP BY source
)
SELECT source.source, source.samples, share.ratio, source.planned, spread.spread, total.batches,
    total.samples AS all_samples, total.first_step, total.last_step
FROM source JOIN share USING (source) JOIN spread USING (source), total ORDER BY source.source
