-- The groups of ranks that communicate.
-- param: attempt int = newest
-- column: group_id  identity of the group
-- column: axis  parallel axis, or unknown
-- column: ranks  its members, global ranks
-- empty: no group was described
SELECT group_id, coalesce(axis, 'unknown') AS axis, ranks
FROM group_members WHERE attempt = $attempt AND ranks IS NOT NULL ORDER BY group_id
