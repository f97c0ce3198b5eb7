-- Where the run's wall time went over its attempts. Productive: steps whose result was kept, without
-- their checkpoints; a step repeated by a later attempt counts as rewound. One row per attempt.
-- column: attempt  start of the job
-- column: wall_s  from its start to the next attempt's start (the last: to its last heartbeat), s
-- column: productive_s  step time of steps no later attempt repeated, without checkpoints, s
-- column: rewound_s  step time of steps a later attempt repeated, s
-- column: checkpoint_s  checkpoint time inside kept steps not hidden by compute, of the slowest rank, s
-- column: start_up_s  from its start to the begin of its first step, s
-- column: after_s  from the end of its last finished step to the end of wall_s: hang and restart, s
-- column: goodput_ratio  productive / wall; NULL where the start is unknown
-- empty: no attempt has a finished step
WITH per_step AS (
    SELECT attempt, step, min(begin_ns) AS begin_ns, max(end_ns) AS end_ns,
        median(window_ns) AS window_ns
    FROM step_rollup WHERE finished AND step >= 0 GROUP BY attempt, step
),
saves AS (
    SELECT attempt, step, max(exposed_ns) AS save_ns
    FROM kind_rollup WHERE kind = 'checkpoint' GROUP BY attempt, step
),
sums AS (
    SELECT p.attempt, min(p.begin_ns) AS first_ns, max(p.end_ns) AS last_ns,
        sum(p.window_ns - coalesce(save_ns, 0)) FILTER (n.attempt = p.attempt) AS productive_ns,
        sum(p.window_ns) FILTER (n.attempt <> p.attempt) AS rewound_ns,
        sum(save_ns) FILTER (n.attempt = p.attempt) AS save_ns
    FROM per_step p JOIN newest_steps n ON n.step = p.step
        LEFT JOIN saves s ON s.attempt = p.attempt AND s.step = p.step
    GROUP BY p.attempt
),
starts AS (
    SELECT attempt, min(started_ns) AS started_ns, max(ended_ns) AS ended_ns
    FROM ranks GROUP BY attempt
),
walls AS (
    SELECT s.*, t.started_ns,
        coalesce(lead(t.started_ns) OVER (ORDER BY s.attempt), greatest(t.ended_ns, last_ns), last_ns)
            AS until_ns
    FROM sums s LEFT JOIN starts t USING (attempt)
)
SELECT attempt, (until_ns - started_ns) / 1e9 AS wall_s,
    coalesce(productive_ns, 0) / 1e9 AS productive_s, coalesce(rewound_ns, 0) / 1e9 AS rewound_s,
    coalesce(save_ns, 0) / 1e9 AS checkpoint_s, (first_ns - started_ns) / 1e9 AS start_up_s,
    (until_ns - last_ns) / 1e9 AS after_s,
    coalesce(productive_ns, 0) / nullif(until_ns - started_ns, 0) AS goodput_ratio
FROM walls ORDER BY attempt
