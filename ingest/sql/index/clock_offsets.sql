-- Clock estimates with the time each is valid from: the latest before a moment, for the time before
-- the first estimate the first. Ranks without an estimate: rank 0 is the reference where others
-- have one; ranks of a job on one single known host share its clock. All others stay unknown, and so
-- do ranks whose clock is recorded as unknown (method none).
INSERT INTO clock_offsets
WITH estimates AS (
    SELECT attempt, rank, ts_ns, offset_ns, err_ns, drift_ppb, method
    FROM read_parquet($clocks, hive_partitioning = false) WHERE method <> 'none'
    QUALIFY row_number() OVER (PARTITION BY attempt, rank, ts_ns ORDER BY err_ns) = 1
),
dated AS (
    SELECT attempt, rank,
        CASE WHEN lag(ts_ns) OVER (PARTITION BY attempt, rank ORDER BY ts_ns) IS NULL
             THEN -9000000000000000000 ELSE ts_ns END AS valid_from_ns,
        ts_ns, offset_ns, err_ns, drift_ppb, method
    FROM estimates
),
hosts AS (
    SELECT attempt, count(DISTINCT host) = 1 AND count(*) FILTER (coalesce(host, '') = '') = 0
        AS one_host
    FROM ranks GROUP BY attempt
),
assumed AS (
    SELECT r.attempt, r.rank, -9000000000000000000, 0, 0, 0, 0,
        CASE WHEN one_host THEN 'same_host' ELSE 'reference' END
    FROM ranks r JOIN hosts USING (attempt)
    WHERE NOT EXISTS (FROM dated d WHERE d.attempt = r.attempt AND d.rank = r.rank)
        AND NOT EXISTS (FROM read_parquet($clocks, hive_partitioning = false) n
                        WHERE n.attempt = r.attempt AND n.rank = r.rank AND n.method = 'none')
        AND (r.rank = 0 AND EXISTS (FROM dated d WHERE d.attempt = r.attempt)
             OR one_host AND NOT EXISTS (FROM dated d WHERE d.attempt = r.attempt))
)
FROM dated UNION ALL FROM assumed
