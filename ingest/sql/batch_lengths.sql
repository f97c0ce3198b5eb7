-- Lengths of the sequences in each micro-batch, as the job states them (tracer.batch), on the first
-- rank of each replica, in the newest 20 of the steps.
-- reads: batch_lengths
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: rank  global rank
-- column: step  optimizer step
-- column: microbatch  micro-batch; -1 the whole batch of the rank
-- column: lengths  tokens of each sequence
-- empty: no batch states the lengths of its sequences
WITH chosen AS (
    SELECT min(rank) AS rank FROM ranks WHERE attempt = $attempt GROUP BY coalesce(dp, -1 - rank)
),
stated AS (
    SELECT rank, step, microbatch, ts_ns, lengths FROM rows_of($batch_lengths)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max
        AND rank IN (SELECT rank FROM chosen)
),
newest AS (SELECT DISTINCT step FROM stated ORDER BY step DESC LIMIT 20)
SELECT rank, step, microbatch, flatten(list(lengths ORDER BY ts_ns)) AS lengths
FROM stated WHERE step IN (SELECT step FROM newest)
GROUP BY rank, step, microbatch ORDER BY step, rank, microbatch
