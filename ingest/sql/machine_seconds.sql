-- Metrics of every machine and its devices, second by second on the aligned clock. Counters are given as
-- their increase per second; where one fell it was reset, and that second is left out.
-- reads: host_metrics
-- param: attempt int = newest
-- param: newest_s int = 1800 seconds wanted, the newest ones
-- param: host text = null one host only
-- param: metric text = null one metric only
-- param: from_s int = null first second wanted, Unix s
-- param: until_s int = null last second wanted
-- column: host  the machine
-- column: metric  name with unit
-- column: of  least or most, over the devices of a machine where machines have several; else empty
-- column: seconds  when, Unix s, ascending
-- column: values  the value in each of them
-- empty: no metric of a machine was recorded
WITH clocks AS (
    SELECT rank, arg_max(offset_ns, valid_from_ns) AS offset_ns FROM clock_offsets WHERE attempt = $attempt GROUP BY rank
),
host_clocks AS (
    SELECT r.host, arg_min(c.offset_ns, c.rank) AS offset_ns
    FROM clocks c JOIN ranks r ON r.rank = c.rank AND r.attempt = $attempt WHERE r.host <> '' GROUP BY r.host
),
samples AS (
    SELECT m.host, m.metric, coalesce(m.device, '') AS device, m.ts_ns + coalesce(c.offset_ns, 0) AS ts_ns,
        m.value
    FROM rows_of($host_metrics) m LEFT JOIN host_clocks c ON c.host = m.host
    WHERE m.attempt = $attempt AND m.rank < 0 AND isfinite(m.value) AND ($host IS NULL OR m.host = $host)
        AND ($metric IS NULL OR m.metric = $metric)
),
newest AS (SELECT *, max(ts_ns) OVER () - CAST($newest_s AS BIGINT) * 1000000000 AS from_ns FROM samples),
rates AS (
    SELECT host, metric, device, ts_ns // 1000000000 AS second, CASE
        WHEN NOT ends_with(metric, '_total') THEN value
        WHEN value >= lag(value) OVER own THEN (value - lag(value) OVER own) / ((ts_ns - lag(ts_ns) OVER own) / 1e9)
    END AS value
    FROM newest WHERE ts_ns > from_ns
    WINDOW own AS (PARTITION BY host, metric, device ORDER BY ts_ns)
),
devices AS (
    SELECT metric, max(num) > 1 AS several
    FROM (SELECT metric, host, count(DISTINCT device) AS num FROM rates GROUP BY metric, host) GROUP BY metric
),
seconds AS (
    SELECT host, metric, second, min(value) AS least, max(value) AS most FROM rates
    WHERE isfinite(value) AND second BETWEEN coalesce($from_s, second) AND coalesce($until_s, second)
    GROUP BY host, metric, second
),
both_ends AS (
    SELECT host, metric, CASE WHEN several THEN 'most' ELSE '' END AS of, second, most AS value FROM seconds JOIN devices USING (metric)
    UNION ALL
    SELECT host, metric, 'least', second, least FROM seconds JOIN devices USING (metric) WHERE several
)
SELECT host, metric, of, list(second ORDER BY second) AS seconds, list(value ORDER BY second) AS values
FROM both_ends GROUP BY host, metric, of ORDER BY host, metric, of
