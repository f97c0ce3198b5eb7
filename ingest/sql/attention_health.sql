-- Greatest logit and mean entropy of each attention head, over the micro-batches and replicas that
-- were looked at. A pipeline stage that counts its layers from 0 anew has them numbered on from the
-- stages before it.
-- reads: attention_stats
-- param: step_min int = -1 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: layer int = null one layer only, numbered over all stages; -1 what is in no layer
-- param: head int = null one head only, numbered over all tensor-parallel ranks
-- param: attempt int = newest
-- column: step  optimizer step
-- column: layer  layer of the whole model, from 0; -1 in no layer
-- column: head  query head of the layer, from 0
-- column: name  attention module
-- column: max_logit  greatest scaled logit before the softmax; NULL where none is finite
-- column: entropy  of the attention weights, mean over the rows, nats; NULL unknown
-- column: rows  query rows looked at
-- column: rank  lowest rank that has the head
-- empty: no attention statistics were recorded in these steps (docs/hooks.md)
WITH told AS (
    SELECT s.*, coalesce(nullif(chunk, -1), r.pp, 0) AS stage
    FROM rows_of($attention_stats) s LEFT JOIN ranks r USING (attempt, rank)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max
),
stages AS (
    SELECT stage, min(layer) AS first, max(layer) AS last, count(DISTINCT layer) AS num_layers
    FROM told WHERE layer >= 0 GROUP BY stage
),
numbered AS (
    SELECT stage, CASE WHEN first <= max(last) OVER before THEN sum(num_layers) OVER before ELSE 0
        END AS layers_before
    FROM stages
    WINDOW before AS (ORDER BY stage ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
placed AS (
    SELECT told.* REPLACE (
        if(layer < 0, layer, layer + coalesce(layers_before, 0))::INTEGER AS layer)
    FROM told LEFT JOIN numbered USING (stage)
)
SELECT step, layer, head, name, max(max_logit) AS max_logit,
    sum(entropy * rows) / nullif(sum(rows) FILTER (entropy IS NOT NULL), 0) AS entropy,
    sum(rows)::BIGINT AS rows, min(rank) AS rank
FROM placed
WHERE ($layer IS NULL OR layer = $layer) AND ($head IS NULL OR head = $head)
GROUP BY step, layer, head, name
ORDER BY step, layer, head, name
