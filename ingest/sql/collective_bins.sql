-- Collectives, sends and receives of some ranks, summed over short intervals of time: for pictures
-- with more collectives than can be drawn one by one.
-- reads: collectives
-- param: ranks text required  global ranks, comma-separated
-- param: begin_ns int required  begin of the window, aligned Unix ns
-- param: end_ns int required  end of the window, aligned Unix ns
-- param: bin_ns int required  length of an interval, ns
-- param: rank_min int = 0 least of the ranks: only files with such ranks are opened
-- param: rank_max int = 2147483647 greatest of the ranks
-- param: attempt int = newest
-- column: rank  global rank
-- column: kind  kind of communication by the axis of the groups
-- column: begin_ns  begin of the first, aligned Unix ns; own clock where the offset is unknown
-- column: end_ns  end of the last within the window
-- column: time_ns  time of all of them within the window, ns
-- column: num_collectives  how many they are
-- empty: none of the ranks communicated in this window
WITH chosen AS (
    SELECT rank, start_ns, end_ns, state, group_id FROM rows_of($collectives)
    WHERE attempt = $attempt AND rank BETWEEN $rank_min AND $rank_max
        AND rank IN (SELECT CAST(unnest(string_split($ranks, ',')) AS INTEGER))
),
placed AS (
    SELECT c.rank, c.group_id, coalesce(
            o.offset_ns + CAST(o.drift_ppb * ((c.start_ns - o.ts_ns) / 1e9) AS BIGINT), 0)
            AS shift_ns,
        c.start_ns + shift_ns AS own_begin_ns,
        CASE WHEN end_ns >= 0 THEN end_ns + shift_ns
             WHEN state = 'completed' THEN own_begin_ns ELSE $end_ns END AS own_end_ns
    FROM chosen c ASOF LEFT JOIN (SELECT * FROM clock_offsets WHERE attempt = $attempt) o
        ON c.rank = o.rank AND c.start_ns >= o.valid_from_ns
),
cut AS (
    SELECT rank, greatest(own_begin_ns, $begin_ns) AS begin_ns, least(own_end_ns, $end_ns) AS end_ns,
        if(axis IN ('tp', 'pp', 'dp', 'ep', 'cp'), axis || '_comm', 'other_comm') AS kind
    FROM placed LEFT JOIN (
        SELECT group_id, axis FROM group_members WHERE attempt = $attempt) USING (group_id)
    WHERE own_begin_ns < $end_ns AND own_end_ns >= $begin_ns
)
SELECT rank, kind, min(begin_ns) AS begin_ns, max(end_ns) AS end_ns,
    CAST(sum(end_ns - begin_ns) AS BIGINT) AS time_ns, count(*) AS num_collectives
FROM cut GROUP BY rank, kind, (begin_ns - $begin_ns) // $bin_ns ORDER BY rank, kind, begin_ns
