-- Ranks of an attempt without any recorded step or span, and how many collectives they recorded.
-- param: ranks text required  global ranks, comma-separated
-- param: attempt int = newest
-- column: rank  global rank
-- column: num_collectives  collectives, sends and receives recorded by it; 0 none
-- empty: each of these ranks has steps or spans, or none of them has collectives
WITH missing AS (
    SELECT rank FROM (SELECT CAST(unnest(string_split($ranks, ',')) AS INTEGER) AS rank)
    ANTI JOIN (SELECT rank FROM step_rollup WHERE attempt = $attempt) USING (rank)
)
SELECT rank, CAST(coalesce(sum(num_instances), 0) AS BIGINT) AS num_collectives
FROM missing LEFT JOIN (
    SELECT rank, num_instances FROM collective_rollup WHERE attempt = $attempt) USING (rank)
GROUP BY rank QUALIFY max(num_collectives) OVER () > 0 ORDER BY rank
