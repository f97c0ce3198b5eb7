-- When each member saw the end of collectives that no member can leave before all have come, where
-- all members recorded it: what clocks of ranks are compared by. Broadcasts, reduces to one rank,
-- scatters, sends and receives are not such: a sender may be through early.
-- reads: collectives
-- param: most_instances int = 1000 at most this many of each group, spread evenly over their numbers
-- param: attempt int = newest
-- column: group_id  groups.group_id
-- column: instance  number of the instance over all groups, from 0
-- column: rank  global rank
-- column: end_ns  when this member saw the end, Unix ns on its own clock
-- column: spent_ns  from being ready to the end, ns
-- empty: no group of which all members recorded the same collective with its end
WITH complete AS (
    SELECT c.group_id, c.seq, row_number() OVER (PARTITION BY c.group_id ORDER BY c.seq) AS i,
        count(*) OVER (PARTITION BY c.group_id) AS n
    FROM rows_of($collectives) c
    JOIN (SELECT * FROM group_members WHERE attempt = $attempt) g USING (group_id)
    WHERE c.attempt = $attempt
        AND op IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier')
    GROUP BY c.group_id, c.seq
    HAVING count(*) = any_value(len(g.ranks)) AND count(DISTINCT c.rank) = count(*)
        AND count(*) > 1 AND bool_and(end_ns >= 0 AND state = 'completed')
),
spread AS (
    SELECT group_id, seq, row_number() OVER (ORDER BY group_id, seq) - 1 AS instance FROM complete
    WHERE i * least($most_instances, n) // n > (i - 1) * least($most_instances, n) // n
)
SELECT group_id, instance, c.rank, c.end_ns, greatest(c.end_ns - c.start_ns, 0) AS spent_ns
FROM rows_of($collectives) c JOIN spread USING (group_id, seq)
WHERE c.attempt = $attempt ORDER BY instance, c.rank
