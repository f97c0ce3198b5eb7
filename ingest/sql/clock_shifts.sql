-- By how much the clock of each rank was shifted to rank 0's, at least and at most.
-- param: attempt int = newest
-- column: rank  global rank
-- column: host  where it runs
-- column: shift_min_ns  least offset to add to its times, ns; NULL not aligned
-- column: shift_max_ns  greatest, ns; NULL not aligned
-- column: err_ns  greatest uncertainty, ns; NULL unknown
-- column: pp  pipeline stage; NULL unknown
-- column: dp  replica; NULL unknown
-- column: cp  index on the context axis; NULL unknown or none
-- column: tp  index on the tensor axis; NULL unknown
-- empty: the attempt has no ranks
SELECT r.rank, any_value(r.host) AS host, min(o.offset_ns) AS shift_min_ns,
    max(o.offset_ns) AS shift_max_ns, max(nullif(o.err_ns, -1)) AS err_ns, any_value(r.pp) AS pp,
    any_value(r.dp) AS dp, any_value(r.cp) AS cp, any_value(r.tp) AS tp
FROM ranks r LEFT JOIN clock_offsets o USING (attempt, rank)
WHERE r.attempt = $attempt GROUP BY r.rank ORDER BY r.rank
