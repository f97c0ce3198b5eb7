-- The last lines that each rank has written; lines that are equal but for their numbers are one row with its ranks.
-- reads: log_lines
-- param: attempt int = newest
-- param: each int = 3 lines of a rank
-- column: ranks  global ranks that wrote it, -1 a host or the whole job
-- column: host  where the first of them runs; NULL unknown
-- column: ts_ns  when the first of them did, Unix ns on the aligned clock where there is one; NULL unknown
-- column: level  debug, info, warning, error, fatal, or empty unknown
-- column: label  what it is known to mean; empty unknown
-- column: text  what the first of these ranks wrote
-- column: file  its log
-- column: line  number of the line there, from 1
-- empty: no rank wrote a line that was kept
WITH clocks AS (
    SELECT rank, arg_max(offset_ns, valid_from_ns) AS offset_ns FROM clock_offsets
    WHERE attempt = $attempt GROUP BY rank
),
newest AS (
    SELECT l.rank, nullif(l.ts_ns, -1) + coalesce(c.offset_ns, 0) AS ts_ns, nullif(host, '') AS host,
        level, label, template, text, file, line
    FROM rows_of($log_lines) l LEFT JOIN clocks c ON c.rank = l.rank WHERE l.attempt = $attempt
    QUALIFY row_number() OVER (PARTITION BY l.rank, CASE WHEN l.rank < 0 THEN file END ORDER BY l.ts_ns DESC, line DESC) <= $each
)
SELECT list_sort(list_distinct(list(rank))) AS ranks, arg_min(host, (rank, line)) AS host, min(ts_ns) AS ts_ns, level, label,
    arg_min(text, (rank, line)) AS text, arg_min(file, (rank, line)) AS file, min(line) AS line
FROM newest GROUP BY level, label, template ORDER BY ts_ns, file, line LIMIT 200
