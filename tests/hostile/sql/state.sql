-- What every statement must find as it was; each answer is compared with the first one. Those that
-- the target refuses tell nothing and are left out.

-- tables, and settings by what they do
SELECT
    (SELECT list(p ORDER BY pattern)::VARCHAR FROM device_peaks p) AS peaks,
    (SELECT list(n ORDER BY step)::VARCHAR FROM newest_steps n) AS newest,
    (SELECT count(*) || ' ' || sum(dur_ns) FROM spans) AS spans,
    (SELECT count(*) || ' ' || sum(tokens) FROM steps) AS steps,
    (SELECT count(*) || ' ' || string_agg(path, ' ' ORDER BY path) FROM files) AS files,
    (SELECT count(*) FROM ranks) AS ranks,
    (SELECT list(r ORDER BY rank, step)::VARCHAR FROM step_rollup r) AS rollup,
    peak_tflops_of('NVIDIA H200') AS peak,
    bus_bytes('all_reduce', 10, 4) AS bytes,
    len([1, 2]) AS length,
    7 / 2 AS division,
    'a' = 'A' AS is_same,
    TIMESTAMPTZ '2024-07-01 00:00:00+00' AT TIME ZONE 'UTC' AS instant,
    (SELECT string_agg(x, ',') FROM (FROM (VALUES ('b'), (NULL), ('a')) t(x) ORDER BY x)) AS sorted,
    try_cast('1.0e5' AS INTEGER) AS cast_;

-- a table that all statements share
SELECT * FROM device_peaks ORDER BY ALL;

-- rows of a table in its own order
SELECT * FROM marks;

-- zone of the session
SELECT (TIMESTAMPTZ '2024-07-01 00:00:00+00')::VARCHAR AS local;

SELECT * FROM duckdb_settings() ORDER BY name;

SELECT database_name, schema_name, view_name, sql FROM duckdb_views() WHERE NOT internal ORDER BY ALL;

SELECT database_name, schema_name, table_name, sql, comment FROM duckdb_tables() ORDER BY ALL;

SELECT function_name, macro_definition, comment FROM duckdb_functions() WHERE NOT internal ORDER BY ALL;

SELECT database_name, path, type, readonly FROM duckdb_databases() ORDER BY ALL;

SELECT * FROM duckdb_secrets();

SELECT * FROM duckdb_variables();

SELECT name FROM duckdb_prepared_statements() ORDER BY ALL;

SELECT database_name, schema_name FROM duckdb_schemas() ORDER BY ALL;

SELECT type_name FROM duckdb_types() WHERE NOT internal ORDER BY ALL;

SELECT current_database(), current_schema();

SELECT * FROM duckdb_sequences();

SELECT * FROM duckdb_external_resource_types();

SELECT * FROM duckdb_logs();
