-- Lines of logs that are known to mean something, or that are errors: where they stand, when, and
-- whether their rank went on afterwards. Of equal lines of a rank in a file the first three and the last two;
-- lines that name different ranks are not equal.
-- reads: log_lines
-- param: attempt int = newest
-- param: limit int = 20000 lines with a label first
-- column: rank  global rank; -1 of a host or of the whole job
-- column: host  where it was written; NULL unknown
-- column: ts_ns  when, Unix ns on the aligned clock where there is one; NULL unknown
-- column: until_ns  the next time that its file gives, on the same clock; NULL none
-- column: err_ns  uncertainty of the host's clock, ns; NULL where it was not compared with others
-- column: timed  own, where the line says when; else file or none
-- column: stream  stdout, stderr, kernel, launcher, scheduler, or log
-- column: file  the log's name
-- column: line  number of its first line in the file, from 1
-- column: level  debug, info, warning, error, fatal, or empty unknown
-- column: label  what it is known to mean; empty unknown
-- column: text  what it says
-- column: before  what the line before it in its file, of the same rank, says; NULL none
-- column: before_line  number of that line; NULL none
-- column: count  equal lines in a row that it stands for
-- column: went_on_ns  how long its rank repeats afterwards what it also wrote before, ns; NULL not at all
-- column: went_on_lines  the same in lines of its file; NULL not at all
-- column: usual_after  lines of level info or debug that its rank wrote afterwards into the same file
-- column: num_hosts  hosts that any line of the logs names, the same in every row
-- empty: no log has an error, or there are no logs
WITH clocks AS (
    SELECT rank, arg_max(offset_ns, valid_from_ns) AS offset_ns,
        arg_max(CASE WHEN method NOT IN ('none', 'imported') AND err_ns >= 0 THEN err_ns ELSE -1 END, valid_from_ns) AS err_ns
    FROM clock_offsets WHERE attempt = $attempt GROUP BY rank
),
host_clocks AS (
    SELECT r.host, arg_min(c.offset_ns, c.rank) AS offset_ns, arg_min(c.err_ns, c.rank) AS err_ns
    FROM clocks c JOIN ranks r ON r.rank = c.rank AND r.attempt = $attempt
    WHERE r.host <> '' GROUP BY r.host
),
lines AS (
    SELECT rank, nullif(host, '') AS host, nullif(ts_ns, -1) AS ts_ns, timed, stream, file, line, level, label,
        template, text, count, lag(text) OVER of_rank AS before, lag(line) OVER of_rank AS before_line
    FROM rows_of($log_lines) WHERE attempt = $attempt
    WINDOW of_rank AS (PARTITION BY file, rank ORDER BY line)
),
timed_lines AS (
    SELECT *, min(CASE WHEN timed = 'own' THEN ts_ns END) OVER (
        PARTITION BY file ORDER BY line ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS until_ns,
        count(*) FILTER (level IN ('info', 'debug') AND label = '' AND NOT contains(text, ' NCCL ')) OVER (
        PARTITION BY file, rank ORDER BY line ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS usual_after
    FROM lines
),
marked AS (
    SELECT *, row_number() OVER (PARTITION BY rank, file, label, template, named ORDER BY line) AS nth,
        row_number() OVER (PARTITION BY rank, file, label, template, named ORDER BY line DESC) AS nth_last
    FROM (SELECT *, regexp_extract(text, '\[?[Rr]ank:? ?(\d+)', 1) AS named FROM timed_lines)
    WHERE label <> '' OR level IN ('error', 'fatal')
    QUALIFY nth <= 3 OR nth_last <= 2
    ORDER BY label = '', ts_ns, file, line LIMIT $limit
),
usual AS (
    SELECT rank, file, template, min(line) AS first_line, max(line) AS last_line, min(ts_ns) AS first_ns,
        max(ts_ns) AS last_ns
    FROM lines
    WHERE rank >= 0 AND label IN ('', 'progress') AND level IN ('', 'debug', 'info') AND stream <> 'kernel'
        AND NOT starts_with(template, 'frame #') AND NOT contains(template, ' NCCL ')
    GROUP BY rank, file, template HAVING count(*) > 1
),
went_on AS (
    SELECT m.rank, m.file, m.line,
        max(u.last_ns - m.ts_ns) FILTER (u.first_ns < m.ts_ns AND u.last_ns > m.ts_ns) AS went_on_ns,
        max(u.last_line - m.line) FILTER (u.file = m.file AND u.first_line < m.line AND u.last_line > m.line)
            AS went_on_lines
    FROM marked m JOIN usual u USING (rank) GROUP BY m.rank, m.file, m.line
)
SELECT m.rank, m.host, m.ts_ns + coalesce(c.offset_ns, h.offset_ns, 0) AS ts_ns,
    m.until_ns + coalesce(c.offset_ns, h.offset_ns, 0) AS until_ns,
    nullif(coalesce(c.err_ns, h.err_ns), -1) AS err_ns, m.timed, m.stream, m.file, m.line, m.level, m.label, m.text,
    m.before, m.before_line, m.count, w.went_on_ns, w.went_on_lines,
    m.usual_after, (SELECT count(DISTINCT host) FROM lines) AS num_hosts
FROM marked m LEFT JOIN clocks c ON c.rank = m.rank LEFT JOIN host_clocks h ON h.host = m.host
LEFT JOIN went_on w ON w.rank = m.rank AND w.file = m.file AND w.line = m.line
ORDER BY ts_ns, m.file, m.line
