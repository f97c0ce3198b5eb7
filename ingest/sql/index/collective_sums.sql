-- Sums of collective_members per (rank, step, group, peer).
INSERT INTO collective_sums
SELECT $attempt, rank, step, group_id, peer, count(*), count(*) FILTER (WHERE is_open),
    count(*) FILTER (WHERE is_unaligned), sum(wait_ns), sum(wait_caused_ns), sum(transfer_ns),
    sum(num_bytes) FILTER (WHERE num_bytes > 0), sum(bus_bytes) FILTER (WHERE transfer_ns > 0),
    sum(transfer_ns) FILTER (WHERE bus_bytes IS NOT NULL), max(transfer_ns), min(seq), max(seq),
    count(end_late_ns), sum(end_late_ns)
FROM collective_members WHERE step BETWEEN $step_min AND $step_max
GROUP BY rank, step, group_id, peer
