-- Rows of collectives as collective_members reads them, in pieces: all members of an instance are in the
-- same one. So are 64 neighbouring numbers of a group: few pieces have sums of one step, and those of a
-- group of all ranks are still spread.
SELECT attempt, rank, step, group_id, seq, op, num_bytes, peer, tag, start_ns, end_ns,
    hash(group_id, seq // 64) % $num_pieces AS piece
FROM read_parquet($collectives, hive_partitioning = false)
WHERE attempt = $attempt AND step BETWEEN $step_min - 1 AND $step_max + 1
