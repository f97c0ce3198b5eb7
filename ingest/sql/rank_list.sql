-- Every rank of an attempt that left a file or data: where it runs, and its coordinates in the layout.
-- param: attempt int = newest
-- column: rank  global rank
-- column: host  where it runs; empty where unknown
-- column: pp  pipeline stage; NULL unknown
-- column: dp  replica; NULL unknown
-- column: cp  index on the context axis; NULL unknown or none
-- column: tp  index on the tensor axis; NULL unknown
-- empty: no rank of this attempt left a file or data
SELECT rank, coalesce(any_value(host), '') AS host, any_value(pp) AS pp, any_value(dp) AS dp,
    any_value(cp) AS cp, any_value(tp) AS tp
FROM (
    SELECT rank, host, pp, dp, cp, tp FROM ranks WHERE attempt = $attempt
    UNION ALL
    SELECT DISTINCT rank, NULL, NULL, NULL, NULL, NULL FROM step_rollup WHERE attempt = $attempt
)
GROUP BY rank ORDER BY rank
