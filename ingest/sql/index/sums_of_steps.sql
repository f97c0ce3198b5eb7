-- Steps with sums have these in place of what the few spans that were published of them add up to.
-- How long they waited for other ranks follows from spans and collectives together: it is unknown.
UPDATE step_rollup r SET
    compute_ns = s.compute_ns, recompute_ns = s.recompute_ns, comm_ns = s.comm_ns,
    exposed_comm_ns = s.exposed_comm_ns, data_wait_ns = s.data_wait_ns,
    data_fetch_ns = s.data_fetch_ns, other_ns = s.other_ns, covered_ns = s.covered_ns,
    eager_ns = s.eager_ns, compiled_ns = s.compiled_ns, graphed_ns = s.graphed_ns,
    imported_ns = s.imported_ns, compute_cpu_ns = s.compute_cpu_ns, num_spans = s.num_spans,
    bubble_ns = NULL, bubble_late_ns = NULL, bubble_other_ns = NULL
FROM summed_steps s
WHERE r.attempt = s.attempt AND r.rank = s.rank AND r.step = s.step
    AND s.attempt = $attempt AND s.step BETWEEN $step_min AND $step_max
