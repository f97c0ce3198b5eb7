-- How often the same batch is read: by ranks that differ only in their index on one parallel axis, and in
-- the whole job. Batches are the same where some of their ids are; the newest 20 of the steps. Ids that come
-- back in another step, such as positions, say nothing.
-- reads: data_batches, loader_fetches
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: axis  tp, cp, pp or dp: ranks that differ only in this index; job: all ranks
-- column: size  how many these are
-- column: peers  of them read the same batch, most of the time
-- column: batches  batches that were read in these 20 steps
-- column: unique_batches  of these, different ones
-- column: factor  times that a batch is read
-- column: read_mb  bytes that the workers of all ranks read in the steps wanted, MB; NULL unknown
-- column: unique_mb  the same, were each batch read once; NULL unknown
-- empty: no batch has ids on the host, or fewer than two steps have
WITH hashed AS (
    SELECT rank, step, ids_hash FROM rows_of($data_batches)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max AND ids_hash IS NOT NULL
),
newest AS (SELECT DISTINCT step FROM hashed ORDER BY step DESC LIMIT 20),
batch AS (
    SELECT DISTINCT rank, step, ids_hash FROM hashed
    WHERE step IN (SELECT step FROM newest) AND (SELECT count(*) FROM newest) > 1
    QUALIFY min(step) OVER (PARTITION BY ids_hash) = max(step) OVER (PARTITION BY ids_hash)
),
place AS (SELECT rank, pp, dp, cp, tp FROM ranks WHERE attempt = $attempt),
peer AS (
    SELECT rank, 'tp' AS axis, [pp, dp, cp] AS others FROM place WHERE tp IS NOT NULL
    UNION ALL SELECT rank, 'cp', [pp, dp, tp] FROM place WHERE cp IS NOT NULL
    UNION ALL SELECT rank, 'pp', [dp, cp, tp] FROM place WHERE pp IS NOT NULL
    UNION ALL SELECT rank, 'dp', [pp, cp, tp] FROM place WHERE dp IS NOT NULL
    UNION ALL SELECT rank, 'job', [] FROM place
),
axes AS (
    SELECT axis, max(num) AS size FROM (SELECT axis, others, count(*) AS num FROM peer GROUP BY axis, others)
    GROUP BY axis HAVING max(num) > 1
),
shared AS (
    SELECT axis, others, step, ids_hash, count(*) AS copies FROM batch JOIN peer USING (rank)
    GROUP BY axis, others, step, ids_hash
),
bytes AS (
    SELECT sum(read_bytes) FILTER (read_bytes >= 0) / 1e6 AS read_mb FROM rows_of($loader_fetches)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max
)
SELECT axis, any_value(size) AS size, mode(copies) AS peers, CAST(sum(copies) AS BIGINT) AS batches,
    count(*) AS unique_batches, sum(copies) / count(*) AS factor, any_value(read_mb) AS read_mb,
    any_value(read_mb) * count(*) / sum(copies) AS unique_mb
FROM shared JOIN axes USING (axis), bytes
GROUP BY axis ORDER BY list_position(['tp', 'cp', 'pp', 'dp', 'job'], axis)
