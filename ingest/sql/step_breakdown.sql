-- What the steps of one rank went to, by kind of span.
-- param: rank int required
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: step  optimizer step
-- column: kind  kind of span
-- column: time_ms  union over the rank's tracks of the time spans of this kind own, ms
-- column: exposed_ms  part of it without compute on another track, ms
-- column: cpu_ms  CPU time of these spans without the spans inside them, ms; NULL unknown
-- column: num_spans  spans of this kind that began in the step
-- empty: the rank has no spans in these steps
SELECT step, kind, time_ns / 1e6 AS time_ms, exposed_ns / 1e6 AS exposed_ms,
    self_cpu_ns / 1e6 AS cpu_ms, num_spans
FROM chosen_kinds($attempt)
WHERE rank = $rank AND step BETWEEN $step_min AND $step_max
ORDER BY step, time_ns DESC, kind
