-- When members saw the end of collectives that none can leave before all have arrived: the clocks of
-- ranks are compared with these. An instance counts if all members recorded it, or at least three and
-- half of them: among three, a member that numbers its collectives differently can be recognised. Two
-- of many do not count, because nothing proves that they saw the same end. Broadcasts, reduces to one
-- rank, scatters, sends and receives do not count either: a sender may leave early.
-- reads: collectives
-- param: most_instances int = 1000 at most this many of each group, spread evenly over their numbers
-- param: attempt int = newest
-- column: group_id  groups.group_id
-- column: instance  number of the instance over all groups, from 0
-- column: rank  global rank
-- column: end_ns  when this member saw the end, Unix ns on its own clock
-- column: spent_ns  from being ready to the end, ns
-- column: num_missing  members that have not recorded it
-- empty: no group of which enough members recorded the same collective with its end
WITH recorded AS (
    SELECT c.group_id, c.seq, any_value(len(g.ranks)) - count(*) AS num_missing,
        row_number() OVER (PARTITION BY c.group_id ORDER BY c.seq) AS i,
        count(*) OVER (PARTITION BY c.group_id) AS n
    FROM rows_of($collectives) c
    JOIN (SELECT * FROM group_members WHERE attempt = $attempt) g USING (group_id)
    WHERE c.attempt = $attempt
        AND op IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier')
    GROUP BY c.group_id, c.seq
    HAVING count(*) > 1 AND count(DISTINCT c.rank) = count(*)
        AND count(*) <= any_value(len(g.ranks))
        AND (count(*) = any_value(len(g.ranks))
            OR count(*) >= 3 AND 2 * count(*) >= any_value(len(g.ranks)))
        AND bool_and(end_ns >= 0 AND state = 'completed')
),
spread AS (
    SELECT group_id, seq, num_missing, row_number() OVER (ORDER BY group_id, seq) - 1 AS instance
    FROM recorded
    WHERE i * least($most_instances, n) // n > (i - 1) * least($most_instances, n) // n
)
SELECT group_id, instance, c.rank, c.end_ns, greatest(c.end_ns - c.start_ns, 0) AS spent_ns,
    num_missing
FROM rows_of($collectives) c JOIN spread USING (group_id, seq)
WHERE c.attempt = $attempt ORDER BY instance, c.rank
