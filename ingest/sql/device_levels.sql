-- Each metric of one machine before and after a moment: means, counters as their increase per second.
-- reads: host_metrics
-- param: host text required  the machine
-- param: split_s float required  the moment, Unix s on the aligned clock
-- param: before_s float = 120 seconds before it
-- param: after_s float = 120 seconds after it
-- param: attempt int = newest
-- column: metric  name with unit
-- column: device  gpu:UUID, nic:mlx5_0/1, host, ...; process rank N of a rank's process; NULL in old files
-- column: before  mean before; increase per second of a counter; NULL no sample
-- column: after  the same afterwards
-- column: last_before  last value before; NULL no sample
-- column: last_after  last value afterwards
-- column: unreadable  why it could not be read, where no sample could; else NULL
-- empty: the machine recorded no metric around that moment
WITH clocks AS (
    SELECT rank, arg_max(offset_ns, valid_from_ns) AS offset_ns FROM clock_offsets WHERE attempt = $attempt GROUP BY rank
),
host_clock AS (
    SELECT arg_min(c.offset_ns, c.rank) AS offset_ns
    FROM clocks c JOIN ranks r ON r.rank = c.rank AND r.attempt = $attempt WHERE r.host = $host
),
samples AS (
    SELECT metric, CASE WHEN rank >= 0 THEN 'process rank ' || rank ELSE device END AS device,
        (m.ts_ns + coalesce(c.offset_ns, 0)) / 1e9 - $split_s AS second, value, state
    FROM rows_of($host_metrics) m, host_clock c WHERE m.attempt = $attempt AND m.host = $host
),
near AS (
    SELECT *, value - lag(value) OVER own AS more, second - lag(second) OVER own AS took_s
    FROM samples WHERE second BETWEEN -$before_s AND $after_s
    WINDOW own AS (PARTITION BY metric, device ORDER BY second)
),
sides AS (
    SELECT metric, device, second >= 0 AS is_after,
        CASE WHEN ends_with(metric, '_total') THEN sum(more) FILTER (more >= 0) / sum(took_s) FILTER (more >= 0)
            ELSE avg(value) FILTER (isfinite(value)) END AS level,
        arg_max(value, second) FILTER (isfinite(value)) AS newest, max(state) FILTER (NOT isfinite(value)) AS reason,
        count(*) FILTER (isfinite(value)) AS num
    FROM near GROUP BY metric, device, is_after
)
SELECT metric, device, max(level) FILTER (NOT is_after) AS before, max(level) FILTER (is_after) AS after,
    max(newest) FILTER (NOT is_after) AS last_before, max(newest) FILTER (is_after) AS last_after,
    CASE WHEN sum(num) = 0 THEN max(reason) END AS unreadable
FROM sides GROUP BY metric, device ORDER BY metric, device
