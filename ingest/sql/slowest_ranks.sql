-- The ranks that are slowest against their peers over some steps: their compute (CPU time where the
-- job ran on CPU) / median of their peers. Peers: the ranks with the same pp and tp index in all
-- replicas; if these are fewer than 3, the other ranks of the stage; if still fewer, the rank's own
-- earlier steps.
-- param: step_min int = null first step wanted; default: last 20
-- param: step_max int = null last step wanted; default: newest
-- param: top int = 10 how many ranks
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: rank  global rank
-- column: host  where it runs
-- column: pp  pipeline stage; NULL unknown
-- column: dp  replica; NULL unknown
-- column: tp  index on the tensor axis; NULL unknown
-- column: slowdown  median over the steps of its compute / its peers' median, x
-- column: noise  3 MAD of slowdown over its peers and the last 20 steps, x
-- column: beyond_noise  whether slowdown - 1 is greater than noise
-- column: peers  dp, stage or own past: whom it was compared with
-- column: measure  cpu or wall: what was compared
-- column: compute_ms  mean compute per step in that measure, ms
-- column: num_steps  steps compared
-- empty: no finished step has both compute and peers
WITH last_step AS (SELECT max(step) AS last FROM chosen_steps($attempt) WHERE finished),
span_of AS (
    SELECT coalesce($step_min, coalesce($step_max, last) - 19) AS low,
        coalesce($step_max, last) AS high FROM last_step
),
cells AS (
    SELECT * FROM slowdowns($attempt, (SELECT least(low, high - 19) FROM span_of), (SELECT high FROM span_of))
),
compared AS MATERIALIZED (  -- else all is compared once for noise and once for ranks
    SELECT attempt, rank, step, pp, if(peers = 'dp', tp, -1) AS tp_of,
        if(peers = 'own past', rank, -1) AS own, peers, is_cpu, work_ns, slowdown
    FROM cells
),
recent AS (SELECT * FROM compared WHERE step > (SELECT high - 20 FROM span_of)),
middles AS (
    SELECT attempt, pp, tp_of, own, median(slowdown) AS middle FROM recent
    GROUP BY attempt, pp, tp_of, own
),
noise AS (
    SELECT attempt, pp, tp_of, own, 3 * median(abs(slowdown - middle)) AS noise
    FROM recent JOIN middles USING (attempt, pp, tp_of, own) GROUP BY attempt, pp, tp_of, own
),
per_rank AS (
    SELECT attempt, rank, pp, tp_of, own, median(slowdown) AS slowdown,
        max(peers) AS peers, if(bool_and(is_cpu), 'cpu', 'wall') AS measure,
        avg(work_ns) / 1e6 AS compute_ms, count(slowdown) AS num_steps
    FROM compared WHERE step BETWEEN (SELECT low FROM span_of) AND (SELECT high FROM span_of)
    GROUP BY attempt, rank, pp, tp_of, own
)
SELECT p.rank, r.host, r.pp, r.dp, r.tp, p.slowdown, n.noise,
    p.slowdown - 1 > n.noise AS beyond_noise, p.peers, p.measure, p.compute_ms, p.num_steps
FROM per_rank p LEFT JOIN noise n USING (attempt, pp, tp_of, own)
    LEFT JOIN ranks r ON r.attempt = p.attempt AND r.rank = p.rank
WHERE p.slowdown IS NOT NULL
ORDER BY p.slowdown DESC, p.rank, p.attempt LIMIT $top
