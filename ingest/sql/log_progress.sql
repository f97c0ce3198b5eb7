-- Until when ranks repeated lines about training steps: the times and lines of the third-last and the last one.
-- reads: log_lines
-- param: attempt int = newest
-- column: file  the log's name
-- column: rank  global rank; -1 of a whole job
-- column: count  how many there are of the kind that goes on longest
-- column: ts_ns  when the third-last was written, Unix ns on the host's own clock; NULL unknown
-- column: line  number of the third-last in the file, from 1
-- column: last_line  number of the last
-- empty: no log repeats lines about steps, or there are no logs
WITH steps AS (
    SELECT file, rank, template, count(*) AS count, max(nullif(ts_ns, -1), 3) AS times, max(line, 3) AS lines
    FROM rows_of($log_lines)
    WHERE attempt = $attempt AND label IN ('', 'progress') AND level IN ('', 'debug', 'info') AND stream <> 'kernel'
        AND regexp_matches(template, '(?i)\b(?:step|iter|iteration|epoch|loss)s?\b')
    GROUP BY file, rank, template HAVING count(*) >= 4
)
SELECT file, rank, max(count) AS count, max(times[3]) AS ts_ns, max(lines[3]) AS line, max(lines[1]) AS last_line
FROM steps GROUP BY file, rank ORDER BY file, rank
