-- Metrics of hosts, devices and ranks' processes over time, in bins. A counter's value is its rate per
-- second; where it fell, it began again: what it gained then is unknown and counts for nothing.
-- reads: host_metrics
-- param: metric text required  names of metrics, comma-separated
-- param: bin_ns int = 10000000000 length of a bin, ns
-- param: host text = null one host only
-- param: device text = null one device only, such as gpu:UUID
-- param: rank int = null one rank's process only; -1: hosts and devices only
-- param: begin_ns int = -9223372036854775807 begin of the window, aligned Unix ns
-- param: end_ns int = 9223372036854775807 end of the window, aligned Unix ns
-- param: from_ns int = -9223372036854775807 only files with times of the hosts' own clocks from here
-- param: to_ns int = 9223372036854775807 and up to here are opened
-- param: attempt int = newest
-- column: host  host name
-- column: device  host, cgroup, process, or a device such as gpu:UUID
-- column: metric  its name
-- column: rank  global rank of a process; -1 of a host or device
-- column: bin_ns  begin of the bin, aligned Unix ns; the hosts' own clocks where they are not aligned
-- column: value  mean of a gauge, rate per second of a counter; NULL unknown
-- column: least  least value in the bin: of a gauge, or of a counter's rates
-- column: most  greatest value in the bin
-- column: num_samples  samples that could be read
-- column: num_resets  how often a counter began again
-- column: num_unreadable  samples that could not be read
-- empty: none of these metrics was recorded
WITH steps AS (
    SELECT *, past_ns / 1e9 AS past_s FROM machine_steps($host_metrics, $attempt)
    WHERE metric IN (SELECT unnest(string_split($metric, ',')))
        AND ($host IS NULL OR host = $host) AND ($device IS NULL OR device = $device)
        AND ($rank IS NULL OR rank = $rank) AND ts_ns BETWEEN $begin_ns AND $end_ns
        AND ts_ns BETWEEN $from_ns AND $to_ns
),
bins AS (
    SELECT host, device, metric, rank, ts_ns // $bin_ns * $bin_ns AS bin_ns,
        CASE WHEN any_value(is_counter) THEN sum(gained) / sum(past_s) FILTER (gained IS NOT NULL)
             ELSE avg(value) END AS value,
        min(if(is_counter, gained / past_s, value)) AS least,
        max(if(is_counter, gained / past_s, value)) AS most,
        count(*) AS num_samples, count(*) FILTER (is_reset) AS num_resets
    FROM steps GROUP BY ALL
),
blind AS (
    SELECT host, device, metric, rank, ts_ns // $bin_ns * $bin_ns AS bin_ns, count(*) AS num_unreadable
    FROM machine_samples($host_metrics, $attempt)
    WHERE value IS NULL AND metric IN (SELECT unnest(string_split($metric, ',')))
        AND ($host IS NULL OR host = $host) AND ($device IS NULL OR device = $device)
        AND ($rank IS NULL OR rank = $rank) AND ts_ns BETWEEN $begin_ns AND $end_ns
    GROUP BY ALL
)
SELECT host, device, metric, rank, bin_ns, value, least, most, coalesce(num_samples, 0) AS num_samples,
    coalesce(num_resets, 0) AS num_resets, coalesce(num_unreadable, 0) AS num_unreadable
FROM bins FULL JOIN blind USING (host, device, metric, rank, bin_ns)
ORDER BY host, device, metric, rank, bin_ns
