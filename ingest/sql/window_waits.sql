-- Collective instances that some ranks took part in during a window of time, on the aligned clock:
-- from when to when each of them waited, for whom, and when data moved. Which member arrived last
-- is decided over the whole instance, including members outside the window and other ranks.
-- reads: collectives
-- param: ranks text required  global ranks, comma-separated
-- param: begin_ns int = -9223372036854775807 begin of the window, aligned Unix ns
-- param: end_ns int = 9223372036854775807 end of the window, aligned Unix ns
-- param: step_min int = -1 first step of the window
-- param: step_max int = 9223372036854775806 last step of the window
-- param: attempt int = newest
-- column: rank  global rank
-- column: group_id  group of the instance
-- column: seq  its number in the group; of a send or receive: per (sender, receiver, tag)
-- column: op  operation
-- column: src  sender of a send or receive; -1 none
-- column: dst  its receiver; -1 none
-- column: step  optimizer step
-- column: begin_ns  when this member was ready, aligned Unix ns
-- column: end_ns  when it saw the end; NULL not yet
-- column: latest_ns  when the last member was ready; NULL where members or clocks are missing
-- column: first_end_ns  first moment a member saw the end; NULL unknown or not yet
-- column: last_rank  who arrived last; NULL unknown, or two arrived last together
-- column: is_crossing  the last one sits on another pipeline stage: it may only follow the schedule
-- empty: none of the ranks communicated in this window
WITH steps AS NOT MATERIALIZED (  -- read once for each of the next two: few of a large job's rows
    SELECT rank, step, group_id, seq, op, peer, tag, start_ns, end_ns FROM rows_of($collectives)
    WHERE attempt = $attempt AND step BETWEEN $step_min - 1 AND $step_max + 1
),
mine AS MATERIALIZED (  -- a list that is a constant: parts of files without these ranks are skipped
    FROM steps WHERE list_contains(CAST(string_split($ranks, ',') AS INTEGER[]), rank)
),
theirs AS MATERIALIZED (FROM steps SEMI JOIN mine USING (group_id, seq)),
times AS MATERIALIZED (SELECT min(start_ns) AS first, max(start_ns) AS last FROM theirs),
offsets AS (  -- the few of these times: joining them so takes less memory than ASOF, which sorts
    SELECT o.* FROM (
        SELECT *, lead(valid_from_ns, 1, 9223372036854775807)
            OVER (PARTITION BY rank ORDER BY valid_from_ns) AS valid_to_ns
        FROM clock_offsets WHERE attempt = $attempt
    ) o, times WHERE valid_from_ns <= last AND valid_to_ns > first
),
here AS MATERIALIZED (
    SELECT c.*, CASE op WHEN 'send' THEN c.rank WHEN 'recv' THEN peer ELSE -1 END AS src,
        CASE op WHEN 'send' THEN peer WHEN 'recv' THEN c.rank ELSE -1 END AS dst,
        CASE WHEN op IN ('send', 'recv') THEN tag ELSE -1 END AS of_tag,
        coalesce(o.offset_ns + CAST(o.drift_ppb * ((c.start_ns - o.ts_ns) / 1e9) AS BIGINT), 0)
            AS shift_ns,
        c.start_ns + shift_ns AS begin_al,
        CASE WHEN c.end_ns >= 0 THEN c.end_ns + shift_ns END AS end_al
    FROM mine c
    LEFT JOIN offsets o
        ON c.rank = o.rank AND c.start_ns >= o.valid_from_ns AND c.start_ns < o.valid_to_ns
    WHERE begin_al < $end_ns AND coalesce(end_al, $end_ns) > $begin_ns
),
members AS (
    SELECT c.*, CASE op WHEN 'send' THEN c.rank WHEN 'recv' THEN peer ELSE -1 END AS src,
        CASE op WHEN 'send' THEN peer WHEN 'recv' THEN c.rank ELSE -1 END AS dst,
        CASE WHEN op IN ('send', 'recv') THEN tag ELSE -1 END AS of_tag,
        o.offset_ns + CAST(o.drift_ppb * ((c.start_ns - o.ts_ns) / 1e9) AS BIGINT) AS shift_ns,
        c.start_ns + shift_ns AS begin_al,
        CASE WHEN c.end_ns >= 0 THEN c.end_ns + shift_ns END AS end_al
    FROM (FROM theirs SEMI JOIN here USING (group_id, seq)) c
    LEFT JOIN offsets o
        ON c.rank = o.rank AND c.start_ns >= o.valid_from_ns AND c.start_ns < o.valid_to_ns
),
instances AS (
    SELECT group_id, src, dst, of_tag, seq, count(*) AS seen,
        if(dst >= 0, 2, coalesce(any_value(g.size), 2)) AS expected,
        bool_and(shift_ns IS NOT NULL) AS aligned, bool_and(end_ns >= 0) AS complete,
        max(begin_al, 2) AS latest, arg_max(rank, begin_al) AS last_rank, min(end_al) AS first_end
    FROM members
    LEFT JOIN (SELECT group_id, len(ranks) AS size FROM group_members WHERE attempt = $attempt) g
        USING (group_id)
    GROUP BY group_id, src, dst, of_tag, seq
),
judged AS (SELECT *, aligned AND seen >= expected AND seen > 1 AS usable FROM instances),
stages AS (SELECT rank, pp FROM ranks WHERE attempt = $attempt)
SELECT h.rank, h.group_id, h.seq, h.op, h.src, h.dst, h.step, h.begin_al AS begin_ns,
    h.end_al AS end_ns, CASE WHEN usable THEN latest[1] END AS latest_ns,
    CASE WHEN usable AND complete THEN greatest(first_end, latest[1]) END AS first_end_ns,
    CASE WHEN usable AND latest[1] > latest[2] THEN last_rank END AS last_rank,
    coalesce(own.pp <> late.pp, false) AS is_crossing
FROM here h JOIN judged i USING (group_id, src, dst, of_tag, seq)
LEFT JOIN stages own ON own.rank = h.rank LEFT JOIN stages late ON late.rank = i.last_rank
ORDER BY h.rank, begin_ns, h.group_id, h.seq
