-- Operations of a StragglerAnalysis trace, or of NDTimeline, as the what-if analysis replays them
-- (docs/whatif.md). Of several tensor-parallel ranks of a cell the first stands for it.
-- reads: spans
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: step  optimizer step
-- column: dp  index on the data-parallel axis; NULL unknown
-- column: stage  pipeline stage; NULL unknown
-- column: rank  global rank that stands for the cell
-- column: optype  one of the artifact's operation types; NULL any other
-- column: seq  number by start among operations of this type in the step and cell, from 0
-- column: chunk  model chunk inside the stage, from 0; -1 none
-- column: start_s  start since the step's first operation, s
-- column: duration_s  wall time, waiting for others included, s
-- empty: no operation in any of these steps
WITH cells AS (
    SELECT rank, pp, dp, coalesce(tp, 0) AS tp, max(pp) OVER () + 1 AS num_stages
    FROM ranks WHERE attempt = $attempt
)
SELECT s.step, CAST(c.dp AS INTEGER) AS dp, CAST(c.pp AS INTEGER) AS stage, s.rank,
    TRY_CAST(s.name AS ENUM (
        'forward-compute', 'backward-compute', 'forward-send', 'forward-recv', 'backward-send',
        'backward-recv', 'params-all-gather', 'grads-reduce-scatter', 'separate-grads-all-reduce',
        'layernorm-grads-all-reduce', 'embedding-grads-all-reduce', 'optimizer-clip-main-grad',
        'optimizer', 'gc')) AS optype,
    CAST(row_number() OVER (PARTITION BY s.rank, s.step, s.name ORDER BY s.ts_ns, s.dur_ns) - 1
        AS INTEGER) AS seq,
    CAST(if(s.chunk >= 0, s.chunk // coalesce(c.num_stages, 1), -1) AS INTEGER) AS chunk,
    CAST((s.ts_ns - min(s.ts_ns) OVER (PARTITION BY s.step)) / 1e9 AS FLOAT) AS start_s,
    CAST(s.dur_ns / 1e9 AS FLOAT) AS duration_s
FROM rows_of($spans) s LEFT JOIN cells c ON c.rank = s.rank
WHERE s.attempt = $attempt AND s.step BETWEEN $step_min AND $step_max AND coalesce(c.tp, 0) = 0
    -- parts of other operations, which NDTimeline records as well
    AND s.name NOT IN ('tp-allreduce', 'tp-allgather', 'tp-reducescatter', 'optimizer-inner-step',
        'optimizer-copy-to-main-grad', 'optimizer-copy-main-to-model-params')
