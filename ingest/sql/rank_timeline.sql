-- What one rank did in a window of time, every span of it.
-- reads: spans
-- param: rank int required
-- param: from_ns int = 0 begin of the window, Unix ns on the rank's clock
-- param: to_ns int = 9223372036854775806 end of the window
-- param: step int = null spans of this step only
-- param: attempt int = newest
-- param: top int = 100000 most spans
-- column: ts_ns  begin, Unix ns on the rank's clock
-- column: dur_ns  wall time, ns
-- column: cpu_ns  CPU time of the thread, ns; -1 unknown
-- column: kind  one of the span kinds
-- column: name  what ran
-- column: track  thread or stream
-- column: depth  nesting on the track
-- column: step  optimizer step it began in
-- column: microbatch  micro-batch; -1 none
-- column: chunk  virtual stage; -1 none
-- column: recompute  forward repeated for checkpointing
-- column: group_id  group of a communication span; 0 none
-- column: coll_seq  its number in the group; -1 none
-- column: peer  other rank of a send or receive; -1 none
-- column: num_bytes  bytes; -1 unknown
-- column: mode  eager, compiled, graphed or imported
-- empty: the rank recorded nothing in this window
SELECT ts_ns, dur_ns, cpu_ns, kind, name, track, depth, step, microbatch, chunk, recompute,
    group_id, coll_seq, peer, num_bytes, mode
FROM spans_of($spans)
WHERE attempt = $attempt AND rank = $rank AND ts_ns < $to_ns AND ts_ns + dur_ns > $from_ns
    AND ($step IS NULL OR step = $step)
ORDER BY track, ts_ns, depth LIMIT $top
