-- How the process of each rank ended.
-- param: attempt int = newest
-- column: rank  global rank
-- column: host  where it ran; NULL unknown
-- column: pid  process id on its host; NULL unknown
-- column: ended_ns  when it ended, Unix ns on the aligned clock where there is one; NULL while it runs or if it
--   was killed
-- column: err_ns  uncertainty of its clock, ns; NULL where it was not compared with others
-- column: status  finished, failed or stopped; NULL while it runs or if it was killed
-- column: error  the traceback that ended it; NULL none
-- empty: the attempt has no rank files
WITH clocks AS (
    SELECT rank, arg_max(offset_ns, valid_from_ns) AS offset_ns,
        arg_max(CASE WHEN method NOT IN ('none', 'imported') THEN err_ns ELSE -1 END, valid_from_ns) AS err_ns
    FROM clock_offsets WHERE attempt = $attempt GROUP BY rank
)
SELECT r.rank, nullif(r.host, '') AS host, CASE WHEN r.pid > 0 THEN r.pid END AS pid,
    r.ended_ns + coalesce(c.offset_ns, 0) AS ended_ns, nullif(c.err_ns, -1) AS err_ns, r.status,
    nullif(r.error, '') AS error
FROM ranks r LEFT JOIN clocks c USING (rank) WHERE r.attempt = $attempt ORDER BY r.rank
