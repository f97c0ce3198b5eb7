-- Lines of logs in order of time, the newest of those asked for; equal ones of several ranks at one time are one row.
-- reads: log_lines
-- param: attempt int = newest
-- param: ranks text = null global ranks, comma-separated, -1 those of hosts; null: all
-- param: text text = null part of the line; capitals do not matter
-- param: least text = null error: errors only; warning: warnings, errors and lines with a known meaning; null: all
-- param: step_min int = -1 only lines written in this step or later; -1 all
-- param: step_max int = 9223372036854775807 and in this step or earlier
-- param: top int = 300 most rows
-- column: ranks  global ranks that wrote it within the same second, -1 a host or the whole job
-- column: host  where the first of them did; NULL unknown
-- column: ts_ns  when, Unix ns on the aligned clock where there is one; NULL unknown
-- column: step  optimizer step; -1 unknown
-- column: level  debug, info, warning, error, fatal, or empty unknown
-- column: label  what it is known to mean; empty unknown
-- column: text  what the first of them wrote
-- column: file  its log
-- column: line  number of the line there, from 1
-- column: num_found  how many lines there are, these included
-- empty: no line is as asked for
WITH clocks AS (
    SELECT rank, arg_max(offset_ns, valid_from_ns) AS offset_ns FROM clock_offsets
    WHERE attempt = $attempt GROUP BY rank
),
found AS (
    SELECT l.rank, nullif(host, '') AS host, nullif(l.ts_ns, -1) + coalesce(c.offset_ns, 0) AS ts_ns, step, level, label,
        template, text, file, line, count(*) OVER () AS num_found
    FROM rows_of($log_lines) l LEFT JOIN clocks c ON c.rank = l.rank
    WHERE l.attempt = $attempt AND ($step_min < 0 OR step BETWEEN $step_min AND $step_max)
        AND ($ranks IS NULL OR l.rank IN (SELECT CAST(unnest(string_split($ranks, ',')) AS INTEGER)))
        AND ($text IS NULL OR contains(lower(text), lower($text)))
        AND ($least IS NULL OR level IN ('error', 'fatal')
            OR ($least = 'warning' AND (level = 'warning' OR label NOT IN ('', 'progress'))))
),
newest AS (
    SELECT list_sort(list_distinct(list(rank))) AS ranks, arg_min(host, (rank, line)) AS host, min(ts_ns) AS ts_ns,
        max(step) AS step, level, label, arg_min(text, (rank, line)) AS text, arg_min(file, (rank, line)) AS file,
        arg_min(line, (rank, line)) AS line, any_value(num_found) AS num_found
    FROM found
    GROUP BY level, label, template, ts_ns // 1000000000, CASE WHEN ts_ns IS NULL THEN (file, line) END
    ORDER BY ts_ns DESC NULLS LAST, file, line DESC LIMIT $top
)
SELECT * FROM newest ORDER BY ts_ns NULLS FIRST, file, line
