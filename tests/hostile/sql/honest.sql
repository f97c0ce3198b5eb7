-- What engineers ask of a run: all of it has to work, with all layers on. The number of rows is that
-- of the run in stage.py.

-- which tables are there
SHOW TABLES;

-- 19 rows: columns of a table
DESCRIBE spans;

-- 2 rows: columns of a query
DESCRIBE SELECT rank, dur_ns / 1e6 AS ms FROM spans;

-- 10 rows: a table at a glance
SUMMARIZE steps;

-- 2 rows: a query at a glance
SUMMARIZE SELECT rank, dur_ns FROM spans WHERE kind = 'forward';

-- 48 rows: everything of a table
FROM steps;

-- 4 rows: a table by its name alone
TABLE ranks;

-- 2 rows: values written down
VALUES (1, 'a'), (2, 'b');

-- 4 rows: time by kind
SELECT kind, count(*) AS n, sum(dur_ns) / 1e6 AS ms FROM spans GROUP BY kind ORDER BY ms DESC;

-- 16 rows: time by rank and kind, FROM first
FROM spans SELECT rank, kind, sum(dur_ns) AS ns GROUP BY ALL ORDER BY ALL;

-- 4 rows: the docs' example
SELECT rank, count(*) FROM spans WHERE kind = 'tp_comm' GROUP BY rank;

-- 4 rows: longest span of each rank
SELECT rank, max(dur_ns) AS longest_ns, arg_max(name, dur_ns) AS name FROM spans GROUP BY rank;

-- 8 rows: two longest of each rank
SELECT rank, kind, dur_ns FROM spans
QUALIFY row_number() OVER (PARTITION BY rank ORDER BY dur_ns DESC, ts_ns) <= 2;

-- 4 rows: percentiles of the step time
SELECT rank, median(dur_ns) AS p50, quantile_cont(dur_ns, 0.95) AS p95, quantile_disc(dur_ns, [0.5, 0.99]) AS both
FROM steps GROUP BY rank ORDER BY rank;

-- 1 row: the same as in PostgreSQL
SELECT percentile_cont(0.9) WITHIN GROUP (ORDER BY dur_ns) AS p90 FROM spans;

-- 1 row: approximate
SELECT approx_quantile(dur_ns, 0.5), approx_count_distinct(name) FROM spans;

-- 4 rows: spread of each rank
SELECT rank, avg(dur_ns), stddev(dur_ns), var_pop(dur_ns), skewness(dur_ns), mad(dur_ns) FROM spans GROUP BY rank;

-- 48 rows: spans with their step
SELECT s.rank, s.step, p.kind, p.dur_ns::DOUBLE / s.dur_ns AS share
FROM spans p JOIN steps s USING (attempt, rank, step) WHERE p.kind = 'forward';

-- 2 rows: spans with the host of their rank
SELECT r.host, count(*) FROM spans LEFT JOIN ranks r USING (attempt, rank) GROUP BY r.host;

-- 72 rows: pairs of ranks in a step
SELECT a.step, a.rank, b.rank AS other, a.dur_ns - b.dur_ns AS diff
FROM steps a JOIN steps b ON a.step = b.step AND a.rank < b.rank;

-- 3 rows: ranks without a mark
SELECT rank FROM ranks ANTI JOIN marks USING (rank);

-- 1 row: ranks with a mark
SELECT rank FROM ranks SEMI JOIN marks USING (rank);

-- 1 row: everything against everything
SELECT count(*) FROM ranks CROSS JOIN (VALUES (1), (2)) t(x);

-- 48 rows: the step that ran when something happened
SELECT p.rank, p.ts_ns, s.step AS at_step FROM spans p ASOF JOIN steps s
ON p.rank = s.rank AND p.ts_ns >= s.start_ns WHERE p.kind = 'optimizer';

-- 3 rows: row by row
SELECT * FROM range(3) POSITIONAL JOIN (VALUES ('a'), ('b'), ('c')) t(x);

-- 8 rows: for each rank its longest spans
SELECT r.rank, top.kind, top.dur_ns FROM ranks r,
LATERAL (SELECT kind, dur_ns FROM spans p WHERE p.rank = r.rank ORDER BY dur_ns DESC LIMIT 2) top;

-- 48 rows: change from step to step
SELECT rank, step, loss - lag(loss) OVER (PARTITION BY rank ORDER BY step) AS change FROM steps;

-- 48 rows: moving average
SELECT rank, step, avg(dur_ns) OVER w AS smooth, max(dur_ns) OVER w AS worst FROM steps
WINDOW w AS (PARTITION BY rank ORDER BY step ROWS BETWEEN 2 PRECEDING AND CURRENT ROW);

-- 48 rows: how ranks stand in each step
SELECT step, rank, rank() OVER (PARTITION BY step ORDER BY dur_ns DESC) AS place,
    percent_rank() OVER (PARTITION BY step ORDER BY dur_ns), ntile(2) OVER (ORDER BY dur_ns) FROM steps;

-- 192 rows: cumulated time
SELECT rank, ts_ns, sum(dur_ns) OVER (PARTITION BY rank ORDER BY ts_ns) / 1e6 AS so_far FROM spans;

-- 144 rows: gaps between spans
SELECT rank, ts_ns - lag(ts_ns + dur_ns) OVER (PARTITION BY rank ORDER BY ts_ns) AS gap_ns FROM spans
WHERE depth = 0;

-- 192 rows: first and last of each
SELECT rank, first_value(name) OVER w, last_value(name) OVER w, nth_value(name, 2) OVER w FROM spans
WINDOW w AS (PARTITION BY rank ORDER BY ts_ns ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING);

-- 12 rows: a mean and whoever is far from it
WITH m AS (SELECT step, avg(dur_ns) AS mean, stddev(dur_ns) AS std FROM spans GROUP BY step)
SELECT p.rank, p.step, (p.dur_ns - m.mean) / m.std AS z FROM spans p JOIN m USING (step) WHERE abs(z) > 1.5;

-- 4 rows: several steps of thought
WITH per_rank AS (SELECT rank, sum(dur_ns) AS ns FROM spans WHERE kind <> 'tp_comm' GROUP BY rank),
typical AS MATERIALIZED (SELECT median(ns) AS ns FROM per_rank)
SELECT rank, per_rank.ns / typical.ns AS slowdown FROM per_rank, typical ORDER BY slowdown DESC;

-- 9 rows: numbers without a gap
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
SELECT i FROM n WHERE i NOT IN (SELECT step FROM steps);

-- 4 rows: kinds beside each other
PIVOT (SELECT rank, kind, dur_ns FROM spans) ON kind IN ('forward', 'optimizer', 'tp_comm')
USING sum(dur_ns) GROUP BY rank;

-- 4 rows: the same in standard SQL
SELECT * FROM (SELECT rank, kind, dur_ns FROM spans) PIVOT (sum(dur_ns) FOR kind IN ('forward', 'data_wait') GROUP BY rank);

-- 96 rows: columns as rows
UNPIVOT (SELECT rank, step, loss, tokens FROM steps) ON loss, tokens INTO NAME metric VALUE value;

-- 21 rows: totals and parts
SELECT rank, kind, sum(dur_ns) FROM spans GROUP BY GROUPING SETS ((rank, kind), (rank), ());

-- 21 rows: totals and parts by rollup
SELECT rank, kind, grouping(kind), count(*) FROM spans GROUP BY ROLLUP (rank, kind);

-- 25 rows: all combinations
SELECT rank, kind, count(*) FROM spans GROUP BY CUBE (rank, kind);

-- 4 rows: shares by FILTER
SELECT rank, sum(dur_ns) FILTER (kind = 'forward') / sum(dur_ns) AS share FROM spans GROUP BY rank;

-- 4 rows: only the large ones
SELECT kind, sum(dur_ns) AS ns FROM spans GROUP BY kind HAVING ns > 400000;

-- 4 rows: lists
SELECT rank, list(kind ORDER BY ts_ns) AS kinds, list_distinct(list(kind)) AS all_kinds,
    len(list(dur_ns)), list_sum(list(dur_ns)), list(dur_ns)[1:3] FROM spans WHERE step = 0 GROUP BY rank;

-- 4 rows: lists with lambdas
SELECT rank, list_transform(list(dur_ns), lambda ns: ns / 1e3) AS us,
    list_filter(list(dur_ns), lambda ns: ns > 20000) AS long, list_reduce(list(dur_ns), lambda a, b: a + b)
FROM spans GROUP BY rank;

-- 1 row: list comprehension and chained calls
SELECT [x * 2 FOR x IN range(5) IF x % 2 = 0] AS twice, [3, 1, 2].list_sort().list_reverse() AS down;

-- 8 rows: lists as rows
SELECT name, unnest(ranks) AS rank FROM groups;

-- 4 rows: structs
SELECT rank, {'from': min(ts_ns), 'to': max(ts_ns + dur_ns)} AS extent, extent['to'] - extent['from'] AS ns
FROM spans GROUP BY rank;

-- 1 row: structs as columns
SELECT unnest({'a': 1, 'b': {'c': 2}}, recursive := true);

-- 1 row: maps
SELECT map_from_entries(list((kind, n))) AS m, m['forward'] FROM (SELECT kind, count(*) AS n FROM spans GROUP BY kind);

-- 1 row: histogram
SELECT histogram(dur_ns) FROM spans;

-- 4 rows: bins
SELECT width, count(*) FROM (SELECT dur_ns // 10000 * 10000 AS width FROM spans) GROUP BY width ORDER BY width;

-- 5 rows: clock time
SELECT make_timestamp(ts_ns // 1000) AS t, strftime(t, '%Y-%m-%d %H:%M:%S.%f'), date_trunc('minute', t), t::DATE
FROM spans LIMIT 5;

-- 12 rows: by the time
SELECT time_bucket(INTERVAL 100 microseconds, make_timestamp(start_ns // 1000)) AS bucket, count(*)
FROM steps GROUP BY bucket ORDER BY bucket;

-- 1 row: intervals and parts of dates
SELECT to_timestamp(1700000000), epoch_ms(1700000000000), date_diff('day', DATE '2024-01-01', DATE '2024-03-01'),
    DATE '2024-02-28' + INTERVAL 2 DAY, extract('hour' FROM TIMESTAMP '2024-01-01 05:00:00'), dayname(DATE '2024-01-01');

-- 5 rows: whole runs of hours
SELECT * FROM generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-02', INTERVAL 6 HOUR) t(at_time);

-- 48 rows: texts by patterns
SELECT name, regexp_extract(name, 'layers\.(\d+)', 1) AS layer, regexp_replace(name, '\d+', 'N') AS shape,
    regexp_matches(name, '^layers'), name LIKE 'layers%', name SIMILAR TO 'lay.*' FROM spans WHERE kind = 'forward';

-- 16 rows: texts in parts
SELECT DISTINCT string_split(name, '.')[1], split_part(name, '.', 2), upper(name), length(name), substr(name, 1, 3),
    concat_ws('/', kind, name), format('{}:{}', kind, rank), printf('%05d', rank), name || '!' FROM spans;

-- 48 rows: JSON of a span
SELECT rank, args->>'$.layer' AS layer, json_extract(args, '$.layer') AS value, args::JSON->'layer' AS same FROM spans
WHERE args IS NOT NULL;

-- 3 rows: JSON out
SELECT to_json(s) FROM (SELECT rank, step, loss FROM steps LIMIT 3) s;

-- 3 rows: whatever the name
SELECT COLUMNS('.*_ns') FROM spans LIMIT 3;

-- 1 row: the same of all columns
SELECT max(COLUMNS(* EXCLUDE (attempt))) FROM steps;

-- 48 rows: all but some
SELECT * EXCLUDE (attempt, lr) REPLACE (dur_ns / 1e6 AS dur_ns) RENAME (loss AS training_loss) FROM steps;

-- 8 rows: cases
SELECT rank, CASE WHEN dur_ns > 60000 THEN 'long' WHEN dur_ns > 20000 THEN 'middle' ELSE 'short' END AS size, count(*)
FROM spans GROUP BY ALL;

-- 4 rows: types
SELECT rank::VARCHAR, CAST(dur_ns AS DOUBLE), TRY_CAST(name AS INTEGER), typeof(dur_ns), coalesce(args, '-'), nullif(rank, 0)
FROM spans LIMIT 4;

-- 1 row: mathematics
SELECT round(2.567, 1), floor(-1.5), ceil(1.2), abs(-3), sqrt(16), ln(2.718281828), log10(1000), power(2, 10), 7 % 3, 7 // 2,
    greatest(1, 2), least(1, 2), sign(-4), pi(), exp(1), 5 & 3, 1 << 4, bit_count(255);

-- 1 row: correlations
SELECT corr(loss, step), regr_slope(loss, step), covar_pop(loss, step) FROM steps;

-- 10 rows: a sample
SELECT * FROM spans USING SAMPLE 10 ROWS;

-- 1 row: a share of rows
SELECT count(*) FROM spans TABLESAMPLE 50 PERCENT (bernoulli, 42);

-- 10 rows: page by page
SELECT rank, step, kind FROM spans ORDER BY ts_ns, rank, kind LIMIT 10 OFFSET 20;

-- 16 rows: sorted by all
SELECT DISTINCT rank, kind FROM spans ORDER BY ALL;

-- 4 rows: one of each
SELECT DISTINCT ON (kind) kind, rank, dur_ns FROM spans ORDER BY kind, dur_ns DESC;

-- 2 rows: one after the other
SELECT 'spans' AS what, count(*) FROM spans UNION ALL SELECT 'steps', count(*) FROM steps;

-- 2 rows: by name
SELECT 1 AS a, 2 AS b UNION ALL BY NAME SELECT 3 AS b;

-- 3 rows: what one has and the other lacks
SELECT rank FROM ranks EXCEPT SELECT rank FROM marks;

-- 1 row: what both have
SELECT rank FROM ranks INTERSECT SELECT rank FROM marks;

-- 4 rows: subqueries
SELECT rank, (SELECT count(*) FROM spans p WHERE p.rank = r.rank) AS n FROM ranks r
WHERE EXISTS (FROM steps s WHERE s.rank = r.rank) AND rank IN (SELECT rank FROM spans) AND rank >= ALL (SELECT 0);

-- 24 rows: waits at collectives
SELECT group_id, seq, max(start_ns) - min(start_ns) AS spread_ns, arg_max(rank, start_ns) AS late
FROM collectives GROUP BY group_id, seq HAVING count(*) > 1 ORDER BY spread_ns DESC;

-- 2 rows: who is late most often
SELECT late, count(*) FROM (SELECT arg_max(rank, start_ns) AS late FROM collectives GROUP BY group_id, seq) GROUP BY late;

-- 4 rows: the rollups
SELECT rank, sum(compute_ns) AS compute, sum(comm_ns) AS comm, sum(exposed_comm_ns) AS exposed FROM step_rollup GROUP BY rank;

-- 16 rows: time by kind in the rollups
SELECT rank, kind, sum(time_ns) FROM kind_rollup GROUP BY ALL;

-- 4 rows: what waited for whom
SELECT rank, sum(wait_ns), sum(wait_caused_ns) FROM collective_rollup GROUP BY rank;

-- 48 rows: slowdowns against the peers
FROM slowdowns(NULL, 0, 100);

-- 5 rows: peaks of devices
SELECT pattern, peak_tflops FROM device_peaks WHERE peak_tflops > 500 ORDER BY peak_tflops;

-- 1 row: peak of a device
SELECT peak_tflops_of('NVIDIA H200') AS peak, bus_bytes('all_gather', 1024, 8);

-- 2 rows: metrics of hosts
SELECT host, metric, avg(value) FROM host_metrics GROUP BY ALL;

-- 4 rows: memory at its highest
SELECT rank, max(allocated) / 1048576 AS mib, format_bytes(max(reserved)) FROM memory GROUP BY rank;

-- 9 rows: files of the run
SELECT table_name, count(*), sum(num_rows) FROM files GROUP BY table_name;

-- 1 row: marks of faults
SELECT rank, step, kind, text FROM marks WHERE kind = 'fault';

-- 8 rows: qualified names, in capitals, in quotes
SELECT S."rank", s.STEP FROM main."steps" AS S WHERE s."step" < 2;

-- 12 rows: with comments and a semicolon at the end
/* steps */ SELECT -- of the first rank
    step FROM steps WHERE rank = 0;

-- 1 row: dollar quotes and escapes
SELECT $$it's$$ AS a, 'it''s' AS b, E'a\tb' AS c;

-- 1 row: an error is caught
SELECT try('x'::INTEGER) AS nothing, if(1 = 1, 'a', 'b'), ifnull(NULL, 1);

-- 1 row: hashes, encodings, identifiers
SELECT md5('a'), sha256('a'), hash(1), to_base64('a'::BLOB), hex('a'), uuid() IS NOT NULL, random() < 1;

-- 1 row: times of now
SELECT now() > TIMESTAMPTZ '2024-01-01', current_date > DATE '2024-01-01';
