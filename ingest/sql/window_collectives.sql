-- Collectives, sends and receives of some ranks in a window of time on the aligned clock: what a
-- timeline draws of ranks that recorded no spans.
-- reads: collectives
-- param: ranks text required  global ranks, comma-separated
-- param: begin_ns int = -9223372036854775807 begin of the window, aligned Unix ns
-- param: end_ns int = 9223372036854775807 end of the window, aligned Unix ns
-- param: rank_min int = 0 least of the ranks: only files with such ranks are opened
-- param: rank_max int = 2147483647 greatest of the ranks
-- param: attempt int = newest
-- column: rank  global rank
-- column: begin_ns  when the rank was ready, aligned Unix ns; own clock where its offset is unknown
-- column: end_ns  when it was over; where that is not known its begin; NULL not completed
-- column: kind  kind of communication by the axis of its group
-- column: name  operation, and what became of it where it was not seen to end
-- column: step  optimizer step; -1 unknown
-- column: group_id  its group
-- column: seq  its number in the group; -1 where the other members are not known
-- column: peer  other rank of a send or receive; -1 none
-- column: num_bytes  bytes; -1 unknown
-- empty: none of the ranks communicated in this window
WITH chosen AS (
    SELECT rank, start_ns, end_ns, state, op, step, group_id, seq, peer, num_bytes
    FROM rows_of($collectives)
    WHERE attempt = $attempt AND rank BETWEEN $rank_min AND $rank_max
        AND rank IN (SELECT CAST(unnest(string_split($ranks, ',')) AS INTEGER))
),
placed AS (
    SELECT c.*, coalesce(
            o.offset_ns + CAST(o.drift_ppb * ((c.start_ns - o.ts_ns) / 1e9) AS BIGINT), 0)
            AS shift_ns,
        c.start_ns + shift_ns AS begin_ns,
        CASE WHEN end_ns >= 0 THEN end_ns + shift_ns
             WHEN state = 'completed' THEN begin_ns END AS end_al
    FROM chosen c ASOF LEFT JOIN (SELECT * FROM clock_offsets WHERE attempt = $attempt) o
        ON c.rank = o.rank AND c.start_ns >= o.valid_from_ns
)
SELECT rank, begin_ns, end_al AS end_ns,
    if(axis IN ('tp', 'pp', 'dp', 'ep', 'cp'), axis || '_comm', 'other_comm') AS kind,
    CASE WHEN end_ns >= 0 THEN op WHEN state = 'completed' THEN op || ', completed, nobody saw when'
         ELSE op || ', ' || state || ', not completed' END AS name,
    step, group_id, if(seq < 2147483648, seq, -1) AS seq, peer, num_bytes
FROM placed LEFT JOIN (
    SELECT group_id, axis FROM group_members WHERE attempt = $attempt) USING (group_id)
WHERE begin_ns < $end_ns AND coalesce(end_al, $end_ns) >= $begin_ns
ORDER BY rank, begin_ns
