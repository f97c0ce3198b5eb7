-- The groups of ranks that communicate.
-- param: attempt int = newest
-- column: group_id  identity of the group
-- column: name  the framework's name for it
-- column: axis  parallel axis, or unknown
-- column: ranks  its members, global ranks
-- empty: no group was described
SELECT group_id, name, coalesce(axis, 'unknown') AS axis, ranks
FROM group_members WHERE attempt = $attempt AND ranks IS NOT NULL ORDER BY group_id
