-- Sums of collective_members per (rank, step, group, peer).
SELECT $attempt AS attempt, rank, step, group_id, peer, count(*) AS num_instances,
    count(*) FILTER (WHERE is_open) AS num_open, count(*) FILTER (WHERE is_unaligned) AS num_unaligned,
    sum(wait_ns) AS wait_ns, sum(wait_caused_ns) AS wait_caused_ns, sum(transfer_ns) AS transfer_ns,
    sum(num_bytes) FILTER (WHERE num_bytes > 0) AS num_bytes,
    sum(bus_bytes) FILTER (WHERE transfer_ns > 0) AS bus_bytes,
    sum(transfer_ns) FILTER (WHERE bus_bytes IS NOT NULL) AS bus_ns, max(transfer_ns) AS longest_ns,
    min(seq) AS first_seq, max(seq) AS last_seq, count(end_late_ns) AS num_ends,
    sum(end_late_ns) AS end_late_ns
FROM collective_members WHERE step BETWEEN $step_min AND $step_max
GROUP BY rank, step, group_id, peer
