-- How far the standby loader of each rank is behind, in three equal parts of its reports.
-- reads: loader_standby
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: rank  global rank
-- column: reports  how often the job stated it
-- column: first_step  step of the first report
-- column: last_step  step of the newest report
-- column: begin_samples  samples behind, median of the first third; NULL not stated
-- column: middle_samples  of the second third
-- column: end_samples  of the last third
-- column: begin_age_s  age of the newest snapshot, median of the first third, s; NULL not stated
-- column: end_age_s  of the last third, s
-- column: newest_samples  samples behind in the newest report; NULL not stated
-- column: newest_age_s  age of the newest snapshot in the newest report, s; NULL not stated
-- empty: no job states how far its standby loaders are behind (tracer.standby)
WITH stated AS (
    SELECT rank, step, ts_ns, nullif(lag_samples, -1) AS lag, snapshot_age_s AS age_s,
        ntile(3) OVER (PARTITION BY rank ORDER BY ts_ns) AS third
    FROM rows_of($loader_standby)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max
)
SELECT rank, count(*) AS reports, min(step) AS first_step, max(step) AS last_step,
    median(lag) FILTER (third = 1) AS begin_samples, median(lag) FILTER (third = 2) AS middle_samples,
    median(lag) FILTER (third = 3) AS end_samples,
    median(age_s) FILTER (third = 1) AS begin_age_s, median(age_s) FILTER (third = 3) AS end_age_s,
    arg_max(lag, ts_ns) AS newest_samples, arg_max(age_s, ts_ns) AS newest_age_s
FROM stated GROUP BY rank ORDER BY rank
