-- Collectives, sends and receives of some ranks whose operation contains a text, in order of time on
-- the aligned clock: what a search finds of ranks that recorded no spans.
-- reads: collectives
-- param: ranks text required  global ranks, comma-separated
-- param: text text required  part of the operation; capitals do not matter
-- param: rank_min int = 0 least of the ranks: only files with such ranks are opened
-- param: rank_max int = 2147483647 greatest of the ranks
-- param: attempt int = newest
-- param: top int = 500 most rows
-- column: rank  global rank
-- column: begin_ns  when the rank was ready, aligned Unix ns; own clock where its offset is unknown
-- column: dur_ns  time until it was over, ns; 0 where that was not seen
-- column: kind  kind of communication by the axis of its group
-- column: name  operation
-- column: step  optimizer step; -1 unknown
-- column: num_found  how many there are, these included
-- empty: no such operation of these ranks
WITH found AS (
    SELECT rank, start_ns, if(end_ns >= 0, end_ns - start_ns, 0) AS dur_ns, op, step, group_id,
        count(*) OVER () AS num_found
    FROM rows_of($collectives)
    WHERE attempt = $attempt AND rank BETWEEN $rank_min AND $rank_max
        AND rank IN (SELECT CAST(unnest(string_split($ranks, ',')) AS INTEGER))
        AND contains(lower(op), lower($text))
)
SELECT f.rank, f.start_ns + coalesce(
        o.offset_ns + CAST(o.drift_ppb * ((f.start_ns - o.ts_ns) / 1e9) AS BIGINT), 0) AS begin_ns,
    dur_ns, if(axis IN ('tp', 'pp', 'dp', 'ep', 'cp'), axis || '_comm', 'other_comm') AS kind, op AS name,
    step, num_found
FROM found f ASOF LEFT JOIN (SELECT * FROM clock_offsets WHERE attempt = $attempt) o
    ON f.rank = o.rank AND f.start_ns >= o.valid_from_ns
LEFT JOIN (SELECT group_id, axis FROM group_members WHERE attempt = $attempt) g
    ON g.group_id = f.group_id
ORDER BY begin_ns, f.rank LIMIT $top
