-- One number for each host and device of one metric: how it was over some steps.
-- reads: host_metrics
-- param: metric text required  name of the metric
-- param: step_min int = -1 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: host  host name
-- column: device  host, cgroup, process, or a device such as nic:mlx5_0/1
-- column: rank  global rank of a process; -1 of a host or device
-- column: value  mean of a gauge, rate per second of a counter; NULL unknown
-- column: least  least value; of a counter its least rate
-- column: most  greatest value
-- column: num_resets  how often a counter began again
-- empty: this metric was not recorded in these steps
SELECT host, device, rank,
    CASE WHEN any_value(is_counter) THEN sum(gained) * 1e9 / nullif(sum(past_ns) FILTER (gained IS NOT NULL), 0)
         ELSE avg(value) END AS value,
    min(if(is_counter, gained * 1e9 / nullif(past_ns, 0), value)) AS least,
    max(if(is_counter, gained * 1e9 / nullif(past_ns, 0), value)) AS most,
    CAST(sum(is_reset::INTEGER) AS BIGINT) AS num_resets
FROM machine_steps($host_metrics, $attempt)
WHERE metric = $metric AND step BETWEEN $step_min AND $step_max
GROUP BY host, device, rank ORDER BY host, device, rank
