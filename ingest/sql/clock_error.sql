-- How each rank's clock differs from rank 0's, and how well that is known. If the clocks of several
-- hosts are not aligned, no finding blames a rank on the basis of their times.
-- param: attempt int = newest
-- column: rank  global rank
-- column: host  where it runs
-- column: offset_us  newest offset to add to its times, us; NULL not aligned
-- column: err_us  uncertainty of it, us; NULL unknown
-- column: drift_ppb  by how much the offset grows, 1e-9
-- column: method  how it was found; NULL not aligned
-- column: num_estimates  estimates there are
-- empty: the attempt has no ranks
WITH seen AS (
    SELECT rank, host FROM ranks WHERE attempt = $attempt
    UNION SELECT rank, NULL FROM step_rollup
    WHERE attempt = $attempt AND rank NOT IN (SELECT rank FROM ranks WHERE attempt = $attempt)
)
SELECT s.rank, any_value(s.host) AS host, arg_max(offset_ns, valid_from_ns) / 1e3 AS offset_us,
    nullif(arg_max(err_ns, valid_from_ns), -1) / 1e3 AS err_us,
    arg_max(drift_ppb, valid_from_ns) AS drift_ppb, arg_max(method, valid_from_ns) AS method,
    count(c.rank) AS num_estimates
FROM seen s LEFT JOIN (SELECT * FROM clock_offsets WHERE attempt = $attempt) c USING (rank)
GROUP BY s.rank ORDER BY s.rank
