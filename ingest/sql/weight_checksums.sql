-- Whether weights that are copies of each other are still bitwise equal: checksums of the same
-- part of a layer's parameters on all ranks that hold it. Of DTensors, all ranks with the same
-- shard are compared; of plain tensors, which do not name their shard, the data-parallel replicas.
-- reads: tensor_stats
-- param: step_min int = -1 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: layer int = null one layer only, as its stage counts it; -1 what is in no layer
-- param: attempt int = newest
-- column: step  optimizer step
-- column: stage  virtual stage, else pipeline stage; 0 where neither is known
-- column: layer  layer as its stage counts it; -1 in no layer
-- column: name  what the parameters belong to
-- column: shard  part of the whole tensor, such as tp=1; or whole; empty: unknown
-- column: place  tensor-parallel index of plain tensors, which do not name their part; -1 none
-- column: num_ranks  ranks that hold it
-- column: num_values  different checksums among them, 1 where all are equal
-- column: odd_ranks  ranks whose checksum fewest have; empty where none is rarer than another
-- empty: no checksums were recorded in these steps, or nothing is held twice (docs/hooks.md)
WITH weights AS (
    SELECT s.* FROM (SELECT NULL::BIGINT AS checksum) AS absent,  -- of runs from before this column
        LATERAL (
            SELECT attempt, step, rank, chunk, layer, name, shard, count, checksum AS bits
            FROM rows_of($tensor_stats)
            WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max
                AND tensor = 'weight' AND ($layer IS NULL OR layer = $layer)
        ) s
),
recorded AS (
    SELECT step, coalesce(nullif(chunk, -1), r.pp, 0) AS stage, layer, name, shard, count,
        CASE WHEN shard = '' THEN coalesce(r.tp, 0) ELSE -1 END AS place, rank, bits AS checksum
    FROM weights LEFT JOIN ranks r USING (attempt, rank) WHERE bits IS NOT NULL
),
equal AS (
    SELECT step, stage, layer, name, shard, place, count, checksum,
        list(DISTINCT rank ORDER BY rank) AS ranks
    FROM recorded GROUP BY ALL
),
counted AS (
    SELECT step, stage, layer, name, shard, place, count, sum(len(ranks))::BIGINT AS num_ranks,
        count(*) AS num_values, arg_min(ranks, len(ranks)) AS fewest,
        max(len(ranks)) AS most
    FROM equal GROUP BY ALL
)
SELECT step, stage, layer, name, shard, place, num_ranks, num_values,
    CASE WHEN num_values > 1 AND len(fewest) < most THEN fewest ELSE [] END AS odd_ranks
FROM counted WHERE num_ranks > 1
ORDER BY step, stage, layer, name, shard, place
