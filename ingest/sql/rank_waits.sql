-- What each rank waited and made others wait per step, in groups within one pipeline stage.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: rank  global rank
-- column: wait_ms  what it waited for later members, mean per step, ms; NULL unknown
-- column: wait_caused_ms  what the others waited because it arrived last, mean per step, rank-ms;
--   NULL unknown
-- column: num_steps  steps with collectives
-- empty: no collective of a group within one pipeline stage was recorded in this range
SELECT rank, sum(wait_ns) / count(DISTINCT step) / 1e6 AS wait_ms,
    sum(wait_caused_ns) / count(DISTINCT step) / 1e6 AS wait_caused_ms,
    count(DISTINCT step) AS num_steps
FROM collectives_of($attempt, NULL)
WHERE step BETWEEN $step_min AND $step_max AND step >= 0
GROUP BY rank ORDER BY rank
