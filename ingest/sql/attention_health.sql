-- Largest logit and mean entropy of each attention head, over the micro-batches and replicas that
-- were looked at. A pipeline stage that counts its layers from 0 again has them numbered on from the
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
SELECT step, layer, head, name, max(max_logit) AS max_logit,
    sum(entropy * rows) / nullif(sum(rows) FILTER (entropy IS NOT NULL), 0) AS entropy,
    sum(rows)::BIGINT AS rows, min(rank) AS rank
FROM rows_by_layer($attention_stats, $attempt, $step_min, $step_max)
WHERE ($layer IS NULL OR layer = $layer) AND ($head IS NULL OR head = $head)
GROUP BY step, layer, head, name
ORDER BY step, layer, head, name
