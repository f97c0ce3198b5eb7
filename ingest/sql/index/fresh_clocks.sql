-- Clock estimates of the ranks that new `clocks` files are of, those known before included; of two of one
-- moment the better one.
CREATE OR REPLACE TEMP TABLE fresh_clocks AS
WITH fresh AS (
    SELECT attempt, rank, ts_ns, offset_ns, err_ns, drift_ppb, method
    FROM read_parquet($clocks, hive_partitioning = false) WHERE method <> 'none'
)
SELECT * FROM (
    FROM fresh UNION ALL
    SELECT attempt, rank, ts_ns, offset_ns, err_ns, drift_ppb, method
    FROM clock_offsets SEMI JOIN fresh USING (attempt, rank) WHERE NOT is_assumed
) QUALIFY row_number() OVER (PARTITION BY attempt, rank, ts_ns ORDER BY err_ns) = 1
