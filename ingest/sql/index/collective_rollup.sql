-- Sums of collective_members per (rank, step, group, peer).
INSERT INTO collective_rollup
SELECT $attempt, rank, step, group_id, peer, count(*), count(*) FILTER (is_open),
    count(*) FILTER (is_unaligned), sum(wait_ns), sum(wait_caused_ns), sum(transfer_ns),
    sum(num_bytes) FILTER (num_bytes > 0), sum(bus_bytes) FILTER (transfer_ns > 0),
    sum(transfer_ns) FILTER (bus_bytes IS NOT NULL), max(transfer_ns), min(seq), max(seq),
    count(end_late_ns), sum(end_late_ns)
FROM collective_members WHERE step BETWEEN $step_min AND $step_max
GROUP BY rank, step, group_id, peer
