-- When each step of training began, and how many tokens it had. Steps before the attempt's first one
-- are taken from earlier attempts, if the run has them.
-- param: attempt int = newest
-- column: step  optimizer step
-- column: attempt  the attempt that it is taken from: the newest that is not after the given one
-- column: begin_s  begin since that of the attempt's first step, s, by the clock of the rank with the
--   most steps of the attempt; NULL: that rank does not have it
-- column: tokens  tokens of the step, each data-parallel replica once; NULL: not logged
-- empty: no step has data
WITH cells AS (
    SELECT s.attempt, s.step, s.rank, s.begin_ns,
        CASE WHEN r.dp IS NULL AND r.pp IS NULL AND r.tp IS NULL THEN s.rank ELSE coalesce(r.dp, 0)
            END AS replica
    FROM step_rollup s LEFT JOIN ranks r USING (attempt, rank)
    WHERE s.attempt <= $attempt AND s.step >= 0
),
taken AS (SELECT step, max(attempt) AS attempt FROM cells GROUP BY step),
chosen AS (SELECT c.* FROM cells c JOIN taken USING (attempt, step)),
clock AS (
    SELECT attempt, rank FROM chosen GROUP BY attempt, rank
    QUALIFY row_number() OVER (PARTITION BY attempt ORDER BY count(*) DESC, rank) = 1
),
begun AS (
    SELECT attempt, step, (begin_ns - min(begin_ns) OVER (PARTITION BY attempt)) / 1e9 AS begin_s
    FROM chosen JOIN clock USING (attempt, rank)
),
replicas AS (
    SELECT attempt, step, max(tokens) AS tokens
    FROM chosen LEFT JOIN step_rows USING (attempt, rank, step) GROUP BY attempt, step, replica
),
counted AS (SELECT attempt, step, sum(tokens) AS tokens FROM replicas GROUP BY attempt, step)
SELECT step, attempt, begin_s, tokens FROM counted LEFT JOIN begun USING (attempt, step)
ORDER BY step
