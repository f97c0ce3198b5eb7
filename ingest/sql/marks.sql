-- What happened to the run: faults injected, restarts, errors, notes; all attempts unless one is given.
-- reads: marks
-- param: attempt int = null all attempts
-- column: attempt  start of the job
-- column: step  optimizer step
-- column: rank  global rank
-- column: ts_ns  when, Unix ns on the rank's clock
-- column: kind  fault, restart, error, hook_error, stalled, silent, lost, perturbation, kernel_capture,
--   prompt or note
-- column: text  one sentence
-- column: args  JSON; NULL none
-- empty: nothing was marked
SELECT attempt, step, rank, ts_ns, kind, text, args FROM rows_of($marks)
WHERE $attempt IS NULL OR attempt = $attempt ORDER BY attempt, ts_ns, rank
