-- Process ids and network addresses of ranks, as NCCL's lines in their logs give them.
-- reads: log_lines
-- param: attempt int = newest
-- column: rank  global rank
-- column: host  where it ran, as the line says; NULL unknown
-- column: pid  process id on its host
-- column: address  address of the interface that it uses; NULL unknown
-- empty: no log has lines of NCCL with a process id whose rank is known
WITH named AS (
    SELECT rank, text, host, regexp_extract(text, '([\w.-]+):(\d+):\d+ \[\d+\]', ['name', 'pid']) AS found
    FROM rows_of($log_lines)
    WHERE attempt = $attempt AND contains(text, ' NCCL ')
),
processes AS (
    SELECT rank, nullif(coalesce(nullif(found.name, ''), host), '') AS host, CAST(found.pid AS BIGINT) AS pid,
        nullif(regexp_extract(text, 'Using (?:\[\d+\])?[\w.-]+:(\d+\.\d+\.\d+\.\d+)<', 1), '') AS address,
        TRY_CAST(regexp_extract(text, 'comm \S+ rank (\d{1,6}) nranks (\d{1,6}) ', 1) AS BIGINT) AS rank_in_group,
        TRY_CAST(regexp_extract(text, 'comm \S+ rank (\d{1,6}) nranks (\d{1,6}) ', 2) AS BIGINT) AS size
    FROM named WHERE length(found.pid) BETWEEN 1 AND 9
),
of_process AS (
    SELECT host, pid, max(rank) AS rank, max(address) AS address, max(size) AS size,
        max_by(rank_in_group, size) AS rank_in_group
    FROM processes GROUP BY host, pid
)
SELECT CAST(CASE WHEN rank >= 0 THEN rank ELSE rank_in_group END AS INTEGER) AS rank, host, pid, address
FROM of_process
WHERE rank >= 0 OR size = (SELECT max(size) FROM of_process)
ORDER BY rank, pid
