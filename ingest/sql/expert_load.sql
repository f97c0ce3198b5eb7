-- How many tokens each expert was given, all ranks together: one row per step and router. Most layers have one
-- router; those of an encoder and of a decoder, say, may have the same layer number, and stay apart by name.
-- TP peers that routed the same tokens count once. Of more than most_ranks ranks only every stride-th of
-- each stage is read: a sample, whose batch_tokens say how many tokens it had. Of more rows than most_rows
-- only the newest steps are read, 150 at least, and a smaller sample.
-- reads: expert_load
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: layer int = null one layer only, numbered over all stages
-- param: most_ranks int = 256 ranks that are read at most, about
-- param: most_rows int = 100000 rows of the table that are read at most, about
-- param: attempt int = newest
-- column: step  optimizer step
-- column: layer  layer of the whole model, from 0; -1 the router's name has no layer number
-- column: name  module that routes
-- column: top_k  experts that a token is sent to; -1 unknown
-- column: batch_tokens  tokens that were routed; -1 unknown
-- column: tokens  tokens by expert, from the first expert of the layer to the last
-- column: dropped  choices left out because an expert was full; -1 unknown
-- column: bias  added to the scores, by expert; NULL none
-- column: aux_loss  load-balancing loss, mean over ranks; NULL unknown
-- column: ranks  ranks that are added up, copies left out
-- column: stride  1 of every `stride` ranks was read; 1 all of them
-- empty: no router was recorded in these steps (docs/experts.md)
WITH places AS (
    SELECT rank, dp, cp, row_number() OVER (PARTITION BY pp ORDER BY rank) - 1 AS number,
        CAST(ceil(count(*) OVER () / greatest($most_ranks, 1)) AS BIGINT) AS least_stride
    FROM ranks WHERE attempt = $attempt
),
written AS (
    SELECT step, if($layer IS NULL, count(*), count(DISTINCT rank)) AS num FROM rows_of($expert_load)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max GROUP BY step
),
least AS (SELECT max(least_stride) AS stride FROM places),
sizes AS (
    SELECT avg(num) AS of_step, any_value(stride) AS least_stride,
        least(count(*), greatest(150, CAST(any_value($most_rows * stride) / avg(num) AS BIGINT))) AS num_steps
    FROM written, least
),
sample AS (
    SELECT num_steps, greatest(least_stride, CAST(ceil(of_step * num_steps / greatest($most_rows, 1)) AS BIGINT))
        AS stride
    FROM sizes
),
newest AS (
    SELECT step FROM written QUALIFY row_number() OVER (ORDER BY step DESC) <= (SELECT num_steps FROM sample)
),
routed AS (
    SELECT r.* REPLACE (router_name(name, layer, stage) AS name), s.stride, row_number() OVER (
            -- where the layout is unknown every rank counts as a replica of its own, with a number below 0
            PARTITION BY step, stage, layer, name, coalesce(s.dp, -1 - rank), s.cp, hash(tokens) ORDER BY rank)
            AS copy
    FROM rows_by_layer($expert_load, $attempt, $step_min, $step_max) r
        JOIN (SELECT rank, dp, cp, stride FROM places, sample WHERE number % stride = 0) s USING (rank)
    WHERE step >= (SELECT min(step) FROM newest) AND ($layer IS NULL OR layer = $layer)
),
single AS (SELECT * FROM routed WHERE copy = 1),
by_expert AS (
    SELECT step, layer, name, expert, CAST(sum(num) AS BIGINT) AS num
    FROM (SELECT step, layer, name, unnest(tokens) AS num, generate_subscripts(tokens, 1) AS expert FROM single)
    GROUP BY step, layer, name, expert
),
loads AS (
    SELECT step, layer, name, list(num ORDER BY expert) AS tokens FROM by_expert GROUP BY step, layer, name
),
routers AS (
    SELECT step, layer, name, max(top_k) AS top_k,
        if(min(batch_tokens) < 0, -1, CAST(sum(batch_tokens) AS BIGINT)) AS batch_tokens,
        if(min(dropped) < 0, -1, CAST(sum(dropped) AS BIGINT)) AS dropped,
        arg_min(bias, rank) AS bias, avg(aux_loss) AS aux_loss, count(*) AS ranks, max(stride) AS stride
    FROM single GROUP BY step, layer, name
)
SELECT step, layer, name, top_k, batch_tokens, tokens, dropped, bias, aux_loss, ranks, stride
FROM routers JOIN loads USING (step, layer, name) ORDER BY step, layer, name
