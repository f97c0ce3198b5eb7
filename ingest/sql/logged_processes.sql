-- Process ids and network addresses of ranks, as NCCL's lines in their logs give them.
-- reads: log_lines
-- param: attempt int = newest
-- column: rank  global rank
-- column: host  where it ran, as the line says; NULL unknown
-- column: pid  process id on its host
-- column: address  address of the interface that it uses; NULL unknown
-- empty: no log of a rank has lines of NCCL with a process id
WITH named AS (
    SELECT rank, text, host, regexp_extract(text, '([\w.-]+):(\d+):\d+ \[\d+\]', ['name', 'pid']) AS found
    FROM rows_of($log_lines)
    WHERE attempt = $attempt AND rank >= 0 AND contains(text, ' NCCL ')
)
SELECT rank, coalesce(max(nullif(host, '')), max(nullif(found.name, ''))) AS host, CAST(found.pid AS BIGINT) AS pid,
    nullif(max(regexp_extract(text, 'Using (?:\[\d+\])?[\w.-]+:(\d+\.\d+\.\d+\.\d+)<', 1)), '') AS address
FROM named WHERE length(found.pid) BETWEEN 1 AND 9 GROUP BY rank, found.pid ORDER BY rank, pid
