-- What a self-test measured: one row per pair, device or group, size, and unit of work; of the rows of
-- its ranks the fastest. NULL instead of numbers where one of them failed.
-- reads: selftests
-- param: attempt int = newest
-- column: test  matmul, memory, h2d, d2h, mesh (ranks of one host), pair (hosts), halves, all_reduce
-- column: is_recheck  whether it was measured again, with all others idle
-- column: num_bytes  size of message, buffer or operands, bytes
-- column: rank  the rank, the lower one of a pair, or the lowest of a group
-- column: peer  the higher rank of a pair; -1 none
-- column: members  ranks that took part, such as 0-3
-- column: host  host of rank
-- column: peer_host  host of peer; NULL none
-- column: device  what the rank computes on
-- column: local_rank  number of the rank on its host, from 0, by rank
-- column: peer_local_rank  of the peer; NULL none
-- column: seconds_min  the shortest repetition, s; NULL not measured
-- column: seconds_median  the median repetition, s; NULL not measured
-- column: value  of the median repetition, in unit; NULL not measured
-- column: unit  GB/s or TFLOP/s
-- column: samples  timed repetitions; 0 none
-- column: problem  why there is no value; NULL there is one
-- empty: no self-test was run
WITH places AS (
    SELECT rank, host, row_number() OVER (PARTITION BY host ORDER BY rank) - 1 AS local_rank
    FROM ranks WHERE attempt = $attempt
),
rows AS (
    SELECT *, ends_with(test, ' recheck') AS is_recheck, replace(test, ' recheck', '') AS of_test,
        if(peer < 0, rank, least(rank, peer)) AS low, if(peer < 0, -1, greatest(rank, peer)) AS high
    FROM rows_of($selftests) WHERE attempt = $attempt
),
together AS (
    SELECT of_test AS test, is_recheck, num_bytes, round, members, min(low) AS rank, high AS peer,
        arg_min(host, rank) AS host, nullif(arg_max(host, rank), '') AS last_host, any_value(device) AS device,
        min(seconds_min) AS seconds_min, min(seconds_median) AS seconds_median, max(value) AS value,
        max(unit) AS unit, min(samples) AS samples, max(problem) AS problem
    FROM rows GROUP BY of_test, is_recheck, num_bytes, round, members, high
)
SELECT test, is_recheck, num_bytes, t.rank, t.peer, members, t.host,
    if(t.peer < 0, NULL, last_host) AS peer_host, device, p.local_rank, q.local_rank AS peer_local_rank,
    if(problem IS NULL, seconds_min, NULL) AS seconds_min, if(problem IS NULL, seconds_median, NULL) AS seconds_median,
    if(problem IS NULL, value, NULL) AS value, unit, samples, problem
FROM together t LEFT JOIN places p ON p.rank = t.rank LEFT JOIN places q ON q.rank = t.peer
ORDER BY test, is_recheck, num_bytes, round, t.rank, t.peer
