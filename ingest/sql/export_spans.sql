-- Every span of a part of a run, in order of time on the aligned clock, with all that is known of it.
-- reads: spans
-- param: ranks text = null global ranks, comma-separated; null: all
-- param: rank_min int = 0 least of the ranks: only files with such ranks are opened
-- param: rank_max int = 2147483647 greatest of the ranks
-- param: step_min int = -9223372036854775807 first step
-- param: step_max int = 9223372036854775807 last step
-- param: from_ns int = -9223372036854775807 spans that begin from here on the ranks' own clocks
-- param: to_ns int = 9223372036854775807 to here, included
-- param: begin_ns int = -9223372036854775807 begin of a window of time, aligned Unix ns
-- param: end_ns int = 9223372036854775807 its end
-- param: attempt int = newest
-- column: rank  global rank
-- column: begin_ns  begin, aligned Unix ns; on the rank's own clock where its offset is unknown
-- column: ts_ns  begin on the rank's own clock, ns
-- column: dur_ns  wall time, ns
-- column: step  optimizer step it began in
-- column: cpu_ns  CPU time of the thread, ns; -1 unknown
-- column: kind  one of the span kinds
-- column: name  what ran
-- column: track  thread or stream
-- column: depth  nesting on the track, 0 outermost
-- column: microbatch  micro-batch; -1 none
-- column: chunk  virtual stage; -1 none
-- column: recompute  forward repeated for checkpointing
-- column: group_id  group of a communication span; 0 none
-- column: coll_seq  its number in the group; -1 none
-- column: peer  other rank of a send or receive; -1 none
-- column: num_bytes  bytes; -1 unknown
-- column: mode  eager, compiled, graphed or imported
-- column: args  JSON; NULL none
-- empty: none of the ranks recorded anything there
SELECT c.rank, c.ts_ns + coalesce(
        o.offset_ns + CAST(o.drift_ppb * ((c.ts_ns - o.ts_ns) / 1e9) AS BIGINT), 0) AS begin_ns,
    c.ts_ns, c.dur_ns, c.step, c.cpu_ns, c.kind, c.name, c.track, c.depth, c.microbatch, c.chunk,
    c.recompute, c.group_id, c.coll_seq, c.peer, c.num_bytes, c.mode, c.args
FROM (
    SELECT * FROM spans_of($spans)
    WHERE attempt = $attempt AND rank BETWEEN $rank_min AND $rank_max
        AND step BETWEEN $step_min AND $step_max AND ts_ns BETWEEN $from_ns AND $to_ns
        AND ($ranks IS NULL
            OR rank IN (SELECT CAST(unnest(string_split(CAST($ranks AS VARCHAR), ',')) AS INTEGER)))
) c ASOF LEFT JOIN (SELECT * FROM clock_offsets WHERE attempt = $attempt) o
    ON c.rank = o.rank AND c.ts_ns >= o.valid_from_ns
WHERE begin_ns < $end_ns AND begin_ns + greatest(c.dur_ns, 0) >= $begin_ns
ORDER BY begin_ns, c.rank, c.dur_ns DESC, c.depth, c.track, c.name
