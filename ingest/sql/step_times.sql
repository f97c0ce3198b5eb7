-- How long every rank took for every step, and what the time went to.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: rank int = null one rank only
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: step  optimizer step
-- column: rank  global rank
-- column: step_ms  end of the step - end of the previous one, ms; NULL while it is not finished
-- column: compute_ms  union of forward, backward, wgrad and optimizer (or of kernels), ms
-- column: recompute_ms  part of compute that repeats a forward, ms
-- column: comm_ms  union of communication, ms
-- column: exposed_comm_ms  communication not hidden by compute, ms
-- column: data_wait_ms  blocked on the next batch, ms
-- column: bubble_ms  covered time without compute, data or transfer, ms; NULL without aligned clocks
-- column: other_ms  gc, checkpoint, host code, copies, ms
-- column: not_visible_ms  time of the step nothing recorded, ms
-- column: cpu_ms  CPU time of compute, ms; NULL where not recorded
-- empty: no step in this range has data
SELECT step, rank, if(finished, window_ns / 1e6, NULL) AS step_ms, compute_ns / 1e6 AS compute_ms,
    recompute_ns / 1e6 AS recompute_ms, comm_ns / 1e6 AS comm_ms,
    exposed_comm_ns / 1e6 AS exposed_comm_ms, data_wait_ns / 1e6 AS data_wait_ms,
    bubble_ns / 1e6 AS bubble_ms, other_ns / 1e6 AS other_ms,
    (window_ns - covered_ns) / 1e6 AS not_visible_ms, compute_cpu_ns / 1e6 AS cpu_ms
FROM chosen_steps($attempt)
WHERE step BETWEEN $step_min AND $step_max AND ($rank IS NULL OR rank = $rank)
ORDER BY step, rank
