-- Functions of DuckDB, or of sql/index with the notation of DuckDB, that Spark has under another name.

CREATE OR REPLACE TEMPORARY FUNCTION starts_with(text STRING, beginning STRING) RETURNS BOOLEAN
RETURN startswith(text, beginning);

CREATE OR REPLACE TEMPORARY FUNCTION ends_with(text STRING, ending STRING) RETURNS BOOLEAN
RETURN endswith(text, ending);

-- to whole numbers only
CREATE OR REPLACE TEMPORARY FUNCTION round_even(number DOUBLE, digits INT) RETURNS DOUBLE
RETURN rint(number);

CREATE OR REPLACE TEMPORARY FUNCTION list_position(items ARRAY<STRING>, item STRING) RETURNS INT
RETURN CAST(nullif(array_position(items, item), 0) AS INT);

-- views.sql has the same of DuckDB
CREATE OR REPLACE TEMPORARY FUNCTION middle(v ARRAY<DOUBLE>)
RETURNS STRUCT<n: INT, a: DOUBLE, b: DOUBLE, c: DOUBLE>
RETURN named_struct('n', size(v), 'a', get(v, size(v) div 2 - 1), 'b', get(v, size(v) div 2),
    'c', get(v, size(v) div 2 + 1));
