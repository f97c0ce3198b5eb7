-- What the time of all devices went to in each step: the mean over the ranks, in disjoint parts that
-- add up to the step's time (window of a rank: end of the previous step to the end of this one).
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: step  optimizer step
-- column: step_ms  mean window of the ranks that finished it, ms
-- column: compute_ms  compute without the next two, ms
-- column: recompute_ms  forwards computed again for a backward, ms
-- column: core_wait_ms  compute on CPU beyond its CPU time, ms; 0 on other devices
-- column: moving_tp_ms  tensor-parallel communication not hidden by compute, without waiting, ms
-- column: moving_pp_ms  of the pipeline, ms
-- column: moving_dp_ms  of the data-parallel axes, ms
-- column: moving_ep_ms  of the expert axis, ms
-- column: moving_other_ms  of other groups, ms
-- column: pipeline_ms  bubble: idle in groups that cross pipeline stages, by the schedule or for a late
--   stage, ms
-- column: waiting_ms  waiting for the others in groups within one stage, ms
-- column: data_ms  blocked on the next batch, ms
-- column: gc_ms  garbage collections, ms
-- column: host_ms  other host work: launches, host code, copies, ms
-- column: checkpoint_ms  saving, ms
-- column: unseen_ms  nothing was recorded, ms
-- column: data_longest_ms  blocked on the next batch, of the rank that is so longest in the step, ms
-- column: gc_longest_ms  garbage collections of the rank that has most of them, ms
-- column: host_longest_ms  other host work of the rank that has most of it, ms
-- column: checkpoint_longest_ms  saving of the rank that saves longest, ms
-- column: gc_rank  the rank with most collections; NULL without any
-- column: waiting_known  whether waiting could be separated from communication on all ranks; else it is
--   in the communication columns
-- column: num_ranks  ranks that finished the step
-- column: world_size  ranks of the job; as many as have finished it where it is unknown
-- empty: no step in this range is finished
SELECT step, avg(window_ns) / 1e6 AS step_ms,
    avg(compute_ns) / 1e6 AS compute_ms, avg(recompute_ns) / 1e6 AS recompute_ms,
    avg(core_wait_ns) / 1e6 AS core_wait_ms, avg(moving_tp_ns) / 1e6 AS moving_tp_ms,
    avg(moving_pp_ns) / 1e6 AS moving_pp_ms, avg(moving_dp_ns) / 1e6 AS moving_dp_ms,
    avg(moving_ep_ns) / 1e6 AS moving_ep_ms, avg(moving_other_ns) / 1e6 AS moving_other_ms,
    avg(pipeline_ns) / 1e6 AS pipeline_ms, avg(waiting_ns) / 1e6 AS waiting_ms,
    avg(data_ns) / 1e6 AS data_ms, avg(gc_ns) / 1e6 AS gc_ms, avg(host_ns) / 1e6 AS host_ms,
    avg(checkpoint_ns) / 1e6 AS checkpoint_ms, avg(unseen_ns) / 1e6 AS unseen_ms,
    max(data_ns) / 1e6 AS data_longest_ms, max(gc_ns) / 1e6 AS gc_longest_ms,
    max(host_ns) / 1e6 AS host_longest_ms, max(checkpoint_ns) / 1e6 AS checkpoint_longest_ms,
    arg_max(p.rank, gc_ns) FILTER (gc_ns > 0) AS gc_rank,
    bool_and(is_known) AS waiting_known, count(*) AS num_ranks,
    coalesce(max(r.world_size), count(*)) AS world_size
FROM time_parts($attempt, $step_min, $step_max) p LEFT JOIN ranks r USING (attempt, rank)
GROUP BY step ORDER BY step
