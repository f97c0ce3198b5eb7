-- Every step of every rank with what was logged for it, and when it began on the aligned clock.
-- param: step_min int = -9223372036854775807 first step
-- param: step_max int = 9223372036854775807 last step
-- param: attempt int = newest
-- column: rank  global rank
-- column: step  optimizer step
-- column: begin_ns  begin, aligned Unix ns; on the rank's own clock where its offset is unknown
-- column: start_ns  begin on the rank's own clock, ns
-- column: dur_ns  wall time, ns
-- column: loss  as logged; NULL none
-- column: grad_norm  as logged; NULL none
-- column: tokens  as logged; NULL none
-- column: flops  as logged; NULL none
-- column: lr  as logged; NULL none
-- empty: no step has ended yet
SELECT s.rank, s.step, s.start_ns + coalesce(
        o.offset_ns + CAST(o.drift_ppb * ((s.start_ns - o.ts_ns) / 1e9) AS BIGINT), 0) AS begin_ns,
    s.start_ns, s.dur_ns, s.loss, s.grad_norm, s.tokens, s.flops, s.lr
FROM (SELECT * FROM step_rows WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max) s
    ASOF LEFT JOIN (SELECT * FROM clock_offsets WHERE attempt = $attempt) o
    ON s.rank = o.rank AND s.start_ns >= o.valid_from_ns
ORDER BY s.rank, s.step
