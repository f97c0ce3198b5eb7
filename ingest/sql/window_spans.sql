-- Every span of some ranks in a window of time on the aligned clock: what a timeline draws.
-- reads: spans
-- param: ranks text required  global ranks, comma-separated
-- param: begin_ns int = -9223372036854775807 begin of the window, aligned Unix ns
-- param: end_ns int = 9223372036854775807 end of the window, aligned Unix ns
-- param: step int = null spans of this step only (needed where times are relative to each step)
-- param: rank_min int = 0 least of the ranks: only files with such ranks are opened
-- param: rank_max int = 2147483647 greatest of the ranks
-- param: from_ns int = -9223372036854775807 only files with times of the ranks' own clocks from here
-- param: to_ns int = 9223372036854775807 and up to here are opened
-- param: attempt int = newest
-- column: rank  global rank
-- column: begin_ns  begin, aligned Unix ns; on the rank's own clock where its offset is unknown
-- column: dur_ns  wall time, ns
-- column: cpu_ns  CPU time of the thread, ns; -1 unknown
-- column: kind  one of the span kinds
-- column: name  what ran
-- column: track  thread or stream
-- column: step  optimizer step it began in
-- column: microbatch  micro-batch; -1 none
-- column: chunk  virtual stage; -1 none
-- column: recompute  forward repeated for checkpointing
-- column: group_id  group of a communication span; 0 none
-- column: coll_seq  its number in the group; -1 none
-- column: peer  other rank of a send or receive; -1 none
-- column: num_bytes  bytes; -1 unknown
-- empty: none of the ranks recorded anything in this window
WITH chosen AS (
    SELECT rank, ts_ns, greatest(dur_ns, 0) AS dur_ns, cpu_ns, kind, name, track, step, microbatch,
        chunk, recompute, group_id, coll_seq, peer, num_bytes
    FROM spans_of($spans)
    WHERE attempt = $attempt AND rank BETWEEN $rank_min AND $rank_max
        AND rank IN (SELECT CAST(unnest(string_split($ranks, ',')) AS INTEGER))
        AND ($step IS NULL OR step = $step) AND ts_ns < $to_ns
),
placed AS (
    SELECT c.*, c.ts_ns + coalesce(
        o.offset_ns + CAST(o.drift_ppb * ((c.ts_ns - o.ts_ns) / 1e9) AS BIGINT), 0) AS begin_ns
    FROM chosen c ASOF LEFT JOIN (SELECT * FROM clock_offsets WHERE attempt = $attempt) o
        ON c.rank = o.rank AND c.ts_ns >= o.valid_from_ns
    WHERE c.ts_ns + c.dur_ns > $from_ns
)
SELECT rank, begin_ns, dur_ns, cpu_ns, kind, name, track, step, microbatch, chunk, recompute,
    group_id, coll_seq, peer, num_bytes
FROM placed WHERE begin_ns < $end_ns AND begin_ns + dur_ns > $begin_ns
