-- Groups of new `groups` files, once each; a known axis wins over an unknown one. Their axis is what
-- the files have it: a layout corrected by hand comes after.
INSERT OR REPLACE INTO group_members
SELECT attempt, group_id, name, "desc", axis, ranks, axis FROM (
    SELECT attempt, group_id, name, "desc", axis, ranks, rank
    FROM read_parquet($groups, hive_partitioning = false)
    UNION ALL SELECT attempt, group_id, name, description, told_axis, ranks, -1 FROM group_members
) QUALIFY row_number() OVER (
    PARTITION BY attempt, group_id ORDER BY axis = 'unknown', rank
) = 1
