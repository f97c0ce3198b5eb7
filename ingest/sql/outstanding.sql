-- Groups of an attempt and the oldest of their collectives that no member saw completed: where a
-- hanging job stopped. Sends and receives are counted, but have no number that all members share.
-- reads: collectives
-- param: attempt int = newest
-- column: group_id  identity of the group
-- column: name  the framework's name for it
-- column: axis  parallel axis, or unknown
-- column: num_members  ranks in it; NULL where the group was not described
-- column: num_recorded  collectives, sends and receives, counted once per member
-- column: num_open  of these not completed
-- column: seq  number of the oldest collective that is not completed; NULL none
-- column: op  its operation
-- column: behind  members for which this is the oldest collective that is not completed, the lowest 64
--   ranks; NULL none
-- column: ahead  members that are further, the lowest 64 ranks; NULL none
-- column: ahead_seq  number of the oldest open collective of the furthest of these; NULL none
-- column: absent  members with no open collective in the group, the lowest 64 ranks; NULL none or
--   unknown
-- empty: no collectives were recorded
WITH recorded AS (
    SELECT rank, group_id, seq, op, end_ns < 0 AND state <> 'completed' AS is_open,
        op NOT IN ('send', 'recv') AND seq < 2147483648 AS is_numbered
    FROM rows_of($collectives) WHERE attempt = $attempt
),
summed AS (
    SELECT group_id, count(*) AS num_recorded, count(*) FILTER (is_open) AS num_open
    FROM recorded GROUP BY group_id
),
oldest AS (
    SELECT group_id, rank, min(seq) AS seq, arg_min(op, seq) AS op
    FROM recorded WHERE is_open AND is_numbered GROUP BY group_id, rank
),
placed AS (SELECT *, min(seq) OVER (PARTITION BY group_id) AS least FROM oldest),
fronts AS (
    SELECT group_id, any_value(least) AS seq, arg_min(op, seq) AS op,
        list(rank ORDER BY rank) FILTER (seq = least) AS behind,
        list(rank ORDER BY rank) FILTER (seq > least) AS ahead,
        max(seq) FILTER (seq > least) AS ahead_seq
    FROM placed GROUP BY group_id
),
members AS (
    SELECT group_id, unnest(ranks) AS rank FROM group_members
    WHERE attempt = $attempt AND group_id IN (SELECT group_id FROM fronts)
),
missing AS (
    SELECT group_id, list(rank ORDER BY rank) AS absent
    FROM members ANTI JOIN oldest USING (group_id, rank) GROUP BY group_id
)
SELECT s.group_id, g.name, coalesce(g.axis, 'unknown') AS axis, len(g.ranks) AS num_members,
    s.num_recorded, s.num_open, f.seq, f.op, f.behind[:64] AS behind, f.ahead[:64] AS ahead,
    f.ahead_seq, m.absent[:64] AS absent
FROM summed s LEFT JOIN fronts f USING (group_id) LEFT JOIN missing m USING (group_id)
LEFT JOIN (SELECT * FROM group_members WHERE attempt = $attempt) g USING (group_id)
ORDER BY (f.ahead IS NOT NULL OR m.absent IS NOT NULL) DESC, s.num_open > 0 DESC,
    len(g.ranks) DESC, s.group_id
