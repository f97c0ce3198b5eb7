-- What share of each rank's steps is explained by recorded spans, and by which kind of source.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: rank int = null one rank only
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: rank  global rank
-- column: covered_ratio  union of recorded spans / step windows, 0 to 1
-- column: eager_ratio  by spans of eager Python
-- column: compiled_ratio  by spans around compiled regions
-- column: graphed_ratio  by spans around graphed regions
-- column: imported_ratio  by imported spans
-- column: not_visible_ratio  by nothing: never counted as bubble or compute
-- column: num_steps  steps looked at
-- empty: no step in this range is finished
SELECT rank, sum(covered_ns) / sum(window_ns) AS covered_ratio,
    sum(eager_ns) / sum(window_ns) AS eager_ratio, sum(compiled_ns) / sum(window_ns) AS compiled_ratio,
    sum(graphed_ns) / sum(window_ns) AS graphed_ratio,
    sum(imported_ns) / sum(window_ns) AS imported_ratio,
    1 - sum(covered_ns) / sum(window_ns) AS not_visible_ratio, count(*) AS num_steps
FROM chosen_steps($attempt)
WHERE finished AND window_ns > 0 AND step BETWEEN $step_min AND $step_max
    AND ($rank IS NULL OR rank = $rank)
GROUP BY rank ORDER BY rank
