-- fresh_clocks with the time each is valid from: the latest before a moment, for the time before the
-- first estimate the first.
INSERT INTO clock_offsets
SELECT attempt, rank,
    CASE WHEN lag(ts_ns) OVER (PARTITION BY attempt, rank ORDER BY ts_ns) IS NULL
         THEN -9000000000000000000 ELSE ts_ns END AS valid_from_ns,
    ts_ns, offset_ns, err_ns, drift_ppb, method, false
FROM fresh_clocks
