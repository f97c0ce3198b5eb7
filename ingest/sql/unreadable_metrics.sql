-- What of the machines could not be read when it was last tried, and why. A reason that begins with
-- 'not there' names what the machine does not have; the others name what it has and does not show.
-- reads: host_metrics
-- param: attempt int = newest
-- column: kind  host, cgroup, process, gpu, nic, net or disk
-- column: metric  its name; SOURCE_readable stands for all metrics of a source
-- column: reason  why it could not be read
-- column: is_there  false where the machine does not have it
-- column: hosts  names of at most five of the hosts
-- column: num_hosts  hosts where it could not be read
-- column: num_devices  devices, or ranks' processes
-- column: first_ns  when it was first found so, aligned Unix ns
-- column: last_ns  when it was last found so
-- empty: all could be read, or nothing was recorded
WITH newest AS (
    SELECT host, device, metric, rank, arg_max(state, ts_ns) AS state,
        min(ts_ns) FILTER (value IS NULL) AS first_ns, max(ts_ns) AS last_ns
    FROM machine_samples($host_metrics, $attempt) GROUP BY host, device, metric, rank
)
SELECT string_split(device, ':')[1] AS kind, metric, substr(state, 13) AS reason,
    NOT starts_with(reason, 'not there') AS is_there,
    list_slice(list_sort(list(DISTINCT host)), 1, 5) AS hosts, count(DISTINCT host) AS num_hosts,
    count(*) AS num_devices, min(first_ns) AS first_ns, max(last_ns) AS last_ns
FROM newest WHERE starts_with(state, 'unreadable: ')
GROUP BY kind, metric, reason ORDER BY is_there DESC, kind, metric, reason
