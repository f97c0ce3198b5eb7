-- How long ago data of each rank last arrived here, by this machine's clock.
-- param: now_ns int required
-- param: attempt int = newest
-- column: rank  global rank
-- column: host  where it runs
-- column: data_age_s  now - arrival of its newest file, s; NULL nothing has arrived
-- column: status  how it ended; NULL while it runs or if it was killed
-- column: error  what ended it; NULL none
-- empty: the attempt has no rank files
SELECT rank, host, ($now_ns - arrived_ns) / 1e9 AS data_age_s, status, error
FROM ranks LEFT JOIN arrivals USING (attempt, rank) WHERE attempt = $attempt ORDER BY rank
