-- Every member's part in every collective instance of some steps, on the aligned clock.
-- An instance: (group_id, seq); point-to-point: (group_id, src, dst, tag, seq). It is open while a
-- member is missing or not complete, unaligned while a member's clock is unknown: then there is no
-- wait, no transfer and no culprit. Where its times are more than a day apart, which no collective
-- takes, a clock is wrong: it counts as unaligned, and sums of such waits would exceed int64. Those of an
-- evaluation are left out: a step does not wait in them.
WITH chosen AS (
    SELECT rank, step, group_id, seq, op, num_bytes, peer, tag, start_ns, end_ns
    FROM read_parquet($collectives, hive_partitioning = false)
    WHERE attempt = $attempt AND step BETWEEN $step_min - 1 AND $step_max + 1
),
-- the clock estimates of the time in which they began, each valid until the next one
extents AS (
    SELECT rank, min(start_ns) AS first_ns, max(start_ns) AS last_ns FROM chosen GROUP BY rank
),
clocks AS (
    SELECT o.* FROM (
        SELECT rank, valid_from_ns, ts_ns, offset_ns, drift_ppb,
            lead(valid_from_ns, 1, 9223372036854775807)
                OVER (PARTITION BY rank ORDER BY valid_from_ns) AS valid_to_ns
        FROM clock_offsets WHERE attempt = $attempt
    ) o JOIN extents x ON o.rank = x.rank
        AND o.valid_from_ns <= x.last_ns AND o.valid_to_ns > x.first_ns
),
-- evaluations lie in no other one: the latest begun may still last
pauses AS (
    SELECT rank, begin_ns, end_ns, lead(begin_ns, 1, 9223372036854775807)
        OVER (PARTITION BY rank ORDER BY begin_ns) AS next_ns
    FROM evaluations WHERE attempt = $attempt
),
rows AS (
    SELECT c.rank, c.step, c.group_id, c.seq, c.op, c.num_bytes, c.start_ns, c.end_ns,
        c.op IN ('send', 'recv') AS is_p2p,
        CASE c.op WHEN 'send' THEN c.rank WHEN 'recv' THEN c.peer ELSE -1 END AS src,
        CASE c.op WHEN 'send' THEN c.peer WHEN 'recv' THEN c.rank ELSE -1 END AS dst,
        CASE WHEN c.op IN ('send', 'recv') THEN c.tag ELSE -1 END AS tag,
        coalesce(c.start_ns < e.end_ns, false) AS in_evaluation,
        o.offset_ns + CAST(round_even(o.drift_ppb * ((c.start_ns - o.ts_ns) / 1e9), 0) AS BIGINT) AS shift_ns
    FROM chosen c
        LEFT JOIN clocks o ON c.rank = o.rank
            AND c.start_ns >= o.valid_from_ns AND c.start_ns < o.valid_to_ns
        LEFT JOIN pauses e ON c.rank = e.rank
            AND c.start_ns >= e.begin_ns AND c.start_ns < e.next_ns
),
placed AS (
    SELECT *, start_ns + shift_ns AS start_al,
        CASE WHEN end_ns >= 0 THEN end_ns + shift_ns END AS end_al
    FROM rows
),
instances AS (
    SELECT group_id, src, dst, tag, seq, count(*) AS seen,
        CASE WHEN bool_or(is_p2p) THEN 2 ELSE max(g.size) END AS expected,
        bool_and(shift_ns IS NOT NULL)
            AND greatest(max(start_al), max(end_al)) - min(start_al) <= 86400000000000 AS aligned,
        bool_and(end_ns >= 0) AS complete,
        max(start_al, 2) AS latest, arg_max(rank, start_al) AS last_rank, min(end_al) AS first_end,
        min(end_ns) AS first_own_end, bool_or(in_evaluation) AS in_evaluation
    FROM placed LEFT JOIN (SELECT group_id, len(ranks) AS size FROM group_members WHERE attempt = $attempt) g
        USING (group_id)
    GROUP BY group_id, src, dst, tag, seq
)
SELECT p.rank, p.step, p.group_id, p.seq, p.num_bytes,
    bus_bytes(p.op, p.num_bytes, expected) AS bus_bytes, p.start_ns, p.end_ns, i.last_rank,
    seen < coalesce(expected, 2) OR NOT complete AS is_open, NOT aligned AS is_unaligned,
    aligned AND seen >= coalesce(expected, 2) AND seen > 1 AS usable,
    CASE WHEN usable THEN latest[1] - start_al END AS wait_ns,
    CASE WHEN usable AND p.rank = i.last_rank THEN (latest[1] - latest[2]) * (seen - 1)
         WHEN usable THEN 0 END AS wait_caused_ns,
    CASE WHEN usable AND complete THEN greatest(first_end - latest[1], 0) END AS transfer_ns,
    latest[1] - p.shift_ns AS last_start_ns, first_end - p.shift_ns AS first_end_ns,
    usable AND latest[1] > latest[2] AS is_late, greatest(p.src, p.dst) >= 0 AS is_between_two,
    CASE WHEN is_between_two THEN if(p.src = p.rank, p.dst, p.src) ELSE -1 END AS peer,
    CASE WHEN complete AND seen = expected AND p.op IN (
            'all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier')
            AND if(aligned, p.end_al - first_end, p.end_ns - first_own_end) <= 86400000000000
         THEN if(aligned, p.end_al - first_end, p.end_ns - first_own_end) END AS end_late_ns
FROM placed p JOIN instances i USING (group_id, src, dst, tag, seq)
WHERE NOT i.in_evaluation
