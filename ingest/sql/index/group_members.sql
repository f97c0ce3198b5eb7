-- Groups of new `groups` files, once each; a known axis wins over an unknown one.
INSERT OR REPLACE INTO group_members
SELECT attempt, group_id, name, "desc", axis, ranks FROM (
    SELECT attempt, group_id, name, "desc", axis, ranks, rank
    FROM read_parquet($groups, hive_partitioning = false)
    UNION ALL SELECT attempt, group_id, name, description, axis, ranks, -1 FROM group_members
) QUALIFY row_number() OVER (
    PARTITION BY attempt, group_id ORDER BY axis = 'unknown', rank
) = 1
