-- What a what-if analysis of a recorded job reads (docs/whatif.md): compute, communication, optimizer,
-- and the sends and receives between stages of every rank, on the aligned clock. Ranks of one (dp rank,
-- stage) are the members of a cell.
-- reads: spans, collectives
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: step  optimizer step it began in
-- column: dp  index on the data-parallel axis; NULL unknown
-- column: stage  pipeline stage; NULL unknown
-- column: rank  global rank
-- column: member  number of the rank among those of its dp rank and stage, from 0
-- column: begin_ns  begin, aligned Unix ns; on the rank's own clock where is_aligned is false
-- column: dur_ns  wall time, ns
-- column: kind  kind of a span (recomputed forwards: backward), or send, recv
-- column: name  what ran
-- column: track  thread or stream
-- column: microbatch  micro-batch; -1 none
-- column: chunk  virtual stage; -1 none
-- column: peer  other global rank of a send or recv; -1 none
-- column: tag  tag of a send or recv; -1 none
-- column: seq  number of a send or recv per (source, destination, tag); -1 none
-- column: waited_ns  how long its rank stood still for a send or recv, ns; -1 unknown
-- column: is_aligned  whether the offset of the rank's clock is known
-- empty: no rank did any of this in these steps
WITH placed AS (  -- an axis that the layout does not have has one index, 0
    SELECT rank, coalesce(pp, dp, cp, tp) IS NOT NULL AS known,
        if(known, coalesce(pp, 0), NULL) AS pp, if(known, coalesce(dp, 0), NULL) AS dp
    FROM ranks WHERE attempt = $attempt
),
cells AS (  -- where nothing tells ranks apart the first one stands for all
    SELECT rank, pp, dp, row_number() OVER (PARTITION BY pp, dp ORDER BY rank) - 1 AS member
    FROM placed QUALIFY known OR member = 0
),
summed AS (  -- steps that a rank summed up cannot be replayed
    SELECT DISTINCT step FROM summed_steps WHERE attempt = $attempt
),
shown AS (
    SELECT coalesce(min(begin_ns), -9223372036854775807) AS begin_ns,
        coalesce(max(end_ns), 9223372036854775807) AS end_ns
    FROM step_rollup WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max
),
near AS (  -- estimates that are valid in these steps: few, so that a join by hash finds each span's
    SELECT o.* FROM clock_offsets o, shown s WHERE attempt = $attempt AND valid_from_ns <= s.end_ns
    QUALIFY lead(valid_from_ns, 1, 9223372036854775807)
        OVER (PARTITION BY rank ORDER BY valid_from_ns) > s.begin_ns
),
offsets AS (  -- the first holds for what came before it, too
    SELECT *, if(lag(rank) OVER clock IS NULL, -9223372036854775807, valid_from_ns) AS since_ns,
        lead(valid_from_ns, 1, 9223372036854775807) OVER clock AS until_ns
    FROM near WINDOW clock AS (PARTITION BY rank ORDER BY valid_from_ns)
),
waits AS (  -- where the program stood still for it, which may begin long after its call
    SELECT rank, step, name AS op, peer, group_id, coll_seq AS seq, min(ts_ns) AS begin_ns
    FROM spans_of($spans) ANTI JOIN summed USING (step)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max AND kind = 'pp_comm'
        AND coll_seq >= 0 GROUP BY ALL
),
chosen AS (
    SELECT step, s.rank, ts_ns, dur_ns, if(recompute AND kind = 'forward', 'backward', kind) AS kind,
        name, track, microbatch, chunk, -1 AS peer, -1 AS tag, -1 AS seq, -1 AS waited_ns
    FROM (
        FROM spans_of($spans) ANTI JOIN summed USING (step)
        WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max AND dur_ns >= 0
            AND kind IN ('forward', 'backward', 'wgrad', 'optimizer', 'dp_comm', 'tp_comm',
                'ep_comm', 'cp_comm', 'other_comm')
    ) s ANTI JOIN (SELECT rank, begin_ns, end_ns FROM evaluations WHERE attempt = $attempt) e
        ON s.rank = e.rank AND s.ts_ns >= e.begin_ns AND s.ts_ns < e.end_ns
    UNION ALL
    SELECT step, rank, start_ns, end_ns - start_ns, op, op, '', -1, -1, peer, tag, seq,
        if(waits.begin_ns IS NULL, -1, end_ns - greatest(start_ns, waits.begin_ns))
    FROM rows_of($collectives) LEFT JOIN waits USING (rank, step, op, peer, group_id, seq)
        ANTI JOIN summed USING (step)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max
        AND op IN ('send', 'recv') AND peer >= 0 AND end_ns >= start_ns
)
SELECT s.step, CAST(c.dp AS INTEGER) AS dp, CAST(c.pp AS INTEGER) AS stage, s.rank,
    CAST(c.member AS INTEGER) AS member, s.ts_ns + coalesce(
        o.offset_ns + CAST(o.drift_ppb * ((s.ts_ns - o.ts_ns) / 1e9) AS BIGINT), 0) AS begin_ns,
    s.dur_ns, s.kind, s.name, s.track, s.microbatch, s.chunk, s.peer, s.tag, s.seq, s.waited_ns,
    o.rank IS NOT NULL AS is_aligned
FROM (SELECT chosen.* FROM chosen SEMI JOIN cells USING (rank)) s
    LEFT JOIN offsets o
        ON s.rank = o.rank AND s.ts_ns >= o.since_ns AND s.ts_ns < o.until_ns
    LEFT JOIN cells c ON c.rank = s.rank
