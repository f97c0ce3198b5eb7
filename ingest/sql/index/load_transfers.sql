-- When a band of ranks was transferring, and when it waited for a late last arriver (own clocks).
SELECT rank, step, last_start_ns AS begin_ns, first_end_ns AS end_ns, false AS is_late
FROM collective_members
WHERE transfer_ns > 0 AND rank BETWEEN $rank_min AND $rank_max
UNION ALL
SELECT rank, step, start_ns, last_start_ns, true FROM collective_members
WHERE is_late AND wait_ns > 0 AND rank BETWEEN $rank_min AND $rank_max
