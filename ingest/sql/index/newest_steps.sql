-- The newest attempt of each step: what a restart repeated counts once. A table, because it is read all
-- the time; made of each snapshot.
CREATE OR REPLACE TABLE newest_steps AS SELECT step, max(attempt) AS attempt FROM (
    SELECT step, attempt FROM step_rollup UNION ALL SELECT step, attempt FROM collective_rollup
) GROUP BY step;
