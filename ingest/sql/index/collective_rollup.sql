-- Files of collective_sums, which have several rows of a (rank, step, group, peer): instances were put
-- together in pieces.
INSERT INTO collective_rollup
SELECT attempt, rank, step, group_id, peer, sum(num_instances), sum(num_open), sum(num_unaligned),
    sum(wait_ns), sum(wait_caused_ns), sum(transfer_ns), sum(num_bytes), sum(bus_bytes), sum(bus_ns),
    max(longest_ns), min(first_seq), max(last_seq), sum(num_ends), sum(end_late_ns)
FROM read_parquet($sums, hive_partitioning = false)
GROUP BY attempt, rank, step, group_id, peer
