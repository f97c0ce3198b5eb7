-- One number for each host, kind of device and metric: how it was over some steps. Devices of a kind are
-- taken together: the mean, the least and the greatest of them.
-- reads: host_metrics
-- param: step_min int = -1 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: host  host name
-- column: kind  host, cgroup, process, gpu, nic, net or disk
-- column: metric  its name
-- column: value  mean over the devices of the mean of a gauge, or the rate per second of a counter; NULL unknown
-- column: least  the least of the devices
-- column: most  the greatest of the devices
-- column: num_devices  devices, or ranks' processes, that have it
-- column: num_resets  how often counters began again
-- empty: no metric was recorded in these steps
WITH devices AS (
    SELECT host, device, metric, rank, sum(is_reset::INTEGER) AS num_resets,
        CASE WHEN any_value(is_counter)
             THEN sum(gained) * 1e9 / nullif(sum(past_ns) FILTER (gained IS NOT NULL), 0)
             ELSE avg(value) END AS value
    FROM machine_steps($host_metrics, $attempt) WHERE step BETWEEN $step_min AND $step_max
    GROUP BY host, device, metric, rank
)
SELECT host, string_split(device, ':')[1] AS kind, metric, avg(value) AS value, min(value) AS least,
    max(value) AS most, count(*) AS num_devices, CAST(sum(num_resets) AS BIGINT) AS num_resets
FROM devices GROUP BY ALL ORDER BY kind, metric, host
