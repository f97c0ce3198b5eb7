-- What every SQL text can use next to the tables, rows_of and spans_of (ingest/query/connection.py), and
-- newest_steps.

-- collectives of some steps, without those that begin in an evaluation of the model
CREATE MACRO collectives_of_steps(files, wanted, low, high) AS TABLE
    SELECT c.* FROM (FROM rows_of(files) WHERE attempt = wanted AND step BETWEEN low AND high) c
        ANTI JOIN (FROM evaluations WHERE attempt = wanted) e
            ON c.rank = e.rank AND c.start_ns >= e.begin_ns AND c.start_ns < e.end_ns;

-- finished steps of which at least one rank has published its spans one by one, not as sums
CREATE MACRO whole_steps(wanted, low, high) AS TABLE
    SELECT DISTINCT step FROM step_rollup ANTI JOIN summed_steps USING (attempt, rank, step)
    WHERE attempt = wanted AND finished AND step BETWEEN low AND high;

-- spans without the few that were published of steps that were summed up
CREATE MACRO whole_spans_of(files) AS TABLE
    SELECT s.* FROM spans_of(files) s ANTI JOIN summed_steps USING (attempt, rank, step);

-- by how much the layers of each pipeline stage are numbered on from those of the stages before it,
-- where a stage counts its own from 0 again
CREATE MACRO layers_before(files, wanted, step_from, step_to) AS TABLE
    WITH stages AS (
        SELECT coalesce(nullif(chunk, -1), r.pp, 0) AS stage, min(layer) AS first, max(layer) AS last,
            count(DISTINCT layer) AS num_layers
        FROM rows_of(files) s LEFT JOIN ranks r USING (attempt, rank)
        WHERE attempt = wanted AND step BETWEEN step_from AND step_to AND layer >= 0 GROUP BY stage
    )
    SELECT stage, CASE WHEN first <= max(last) OVER before THEN sum(num_layers) OVER before
        ELSE 0 END AS num_before
    FROM stages
    WINDOW before AS (ORDER BY stage ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING);

-- rows of files of tables by layer, with layers of the whole model
CREATE MACRO rows_by_layer(files, wanted, step_from, step_to) AS TABLE
    SELECT s.* REPLACE (
            if(layer < 0, layer, layer + coalesce(num_before, 0))::INTEGER AS layer),
        coalesce(nullif(chunk, -1), r.pp, 0) AS stage
    FROM rows_of(files) s LEFT JOIN ranks r USING (attempt, rank)
        LEFT JOIN layers_before(files, wanted, step_from, step_to) b
            ON b.stage = coalesce(nullif(s.chunk, -1), r.pp, 0)
    WHERE attempt = wanted AND step BETWEEN step_from AND step_to;

-- name of a router; without a layer number routers of several stages may have the same one
CREATE MACRO router_name(name, layer, stage) AS
    if(layer < 0 AND stage > 0, name || ' of stage ' || stage, name);

-- step_rollup of one attempt, or of the newest attempt of each step where it is NULL
CREATE MACRO chosen_steps(wanted) AS TABLE
    SELECT s.* FROM step_rollup s JOIN newest_steps n USING (step)
    WHERE s.attempt = coalesce(wanted, n.attempt);
CREATE MACRO chosen_kinds(wanted) AS TABLE
    SELECT k.* FROM kind_rollup k JOIN newest_steps n USING (step)
    WHERE k.attempt = coalesce(wanted, n.attempt);
CREATE MACRO chosen_collectives(wanted) AS TABLE
    SELECT c.* FROM collective_rollup c JOIN newest_steps n USING (step)
    WHERE c.attempt = coalesce(wanted, n.attempt);

-- groups whose members sit on several pipeline stages: the last to arrive there may only follow the
-- schedule
CREATE VIEW crossing_groups AS
    SELECT attempt, group_id FROM group_members WHERE axis = 'pp'
    UNION SELECT attempt, group_id
    FROM (SELECT attempt, group_id, unnest(ranks) AS rank FROM group_members)
        JOIN ranks USING (attempt, rank)
    GROUP BY attempt, group_id HAVING count(DISTINCT pp) > 1;

-- collective_rollup as chosen_collectives gives it: groups of one axis; `all`: of every group; NULL:
-- those within one pipeline stage
CREATE MACRO collectives_of(wanted, of_axis) AS TABLE
    SELECT c.* FROM chosen_collectives(wanted) c LEFT JOIN group_members g USING (attempt, group_id)
    WHERE of_axis = 'all' OR g.axis = of_axis
        OR of_axis IS NULL AND NOT EXISTS (
            SELECT 1 FROM crossing_groups x WHERE x.attempt = c.attempt AND x.group_id = c.group_id);

-- what finished steps low..high of each rank went to, ns: disjoint parts that add up to window_ns.
-- moving_*: communication that moves data, as far as compute does not hide it, divided among the axes
-- in proportion to exposed time minus waiting. Where waiting cannot be told from communication
-- (is_known false), it is in there, and waiting and pipeline are 0. pipeline: idle in groups that
-- cross pipeline stages, by the schedule or for a late stage. core_wait: compute on CPU beyond its
-- CPU time. Checkpoints and collections count as far as the rank idles meanwhile
CREATE MACRO time_parts(wanted, low, high) AS TABLE
WITH cells AS (
    FROM chosen_steps(wanted)
    WHERE finished AND step >= 0 AND step BETWEEN low AND high AND window_ns > 0
),
kinds AS (
    SELECT attempt, rank, step,
        sum(time_ns - exposed_ns) FILTER (kind = 'data_wait') AS hidden_ns,
        sum(exposed_ns) FILTER (kind = 'checkpoint') AS save_ns,
        sum(exposed_ns) FILTER (kind = 'gc') AS pause_ns,
        sum(exposed_ns) FILTER (kind = 'tp_comm') AS tp_ns,
        sum(exposed_ns) FILTER (kind = 'pp_comm') AS pp_ns,
        sum(exposed_ns) FILTER (kind = 'dp_comm') AS dp_ns,
        sum(exposed_ns) FILTER (kind = 'ep_comm') AS ep_ns,
        sum(exposed_ns) FILTER (kind IN ('cp_comm', 'other_comm')) AS other_ns
    FROM chosen_kinds(wanted) WHERE step BETWEEN low AND high GROUP BY attempt, rank, step
),
waits AS (
    SELECT attempt, rank, step, sum(wait_ns) FILTER (axis = 'tp') AS tp_ns,
        sum(wait_ns) FILTER (axis = 'pp') AS pp_ns, sum(wait_ns) FILTER (axis = 'dp') AS dp_ns,
        sum(wait_ns) FILTER (axis = 'ep') AS ep_ns,
        sum(wait_ns) FILTER (axis IS NULL OR axis NOT IN ('tp', 'pp', 'dp', 'ep')) AS other_ns,
        sum(wait_ns) FILTER (x.group_id IS NOT NULL) AS crossing_ns, sum(wait_ns) AS all_ns
    FROM chosen_collectives(wanted) LEFT JOIN group_members USING (attempt, group_id)
        LEFT JOIN crossing_groups x USING (attempt, group_id)
    WHERE step BETWEEN low AND high GROUP BY attempt, rank, step
),
weighed AS (
    SELECT c.attempt, c.rank, c.step, window_ns, compute_ns, recompute_ns, covered_ns,
        bubble_ns IS NOT NULL AS is_known, coalesce(bubble_ns - bubble_other_ns, 0) AS waits_ns,
        least(coalesce(k.pp_ns, 0) + coalesce(k.other_ns, 0), coalesce(crossing_ns, 0)) AS crossing,
        least(coalesce(k.tp_ns, 0) + coalesce(k.dp_ns, 0) + coalesce(k.ep_ns, 0)
            + coalesce(k.other_ns, 0), coalesce(all_ns - crossing_ns, all_ns, 0)) AS inside,
        coalesce(waits_ns * crossing / nullif(crossing + inside, 0), 0)::BIGINT AS pipeline_ns,
        data_wait_ns - coalesce(hidden_ns, 0) AS data_ns,
        covered_ns - compute_ns - data_ns AS left_ns,
        coalesce(bubble_other_ns, greatest(left_ns - exposed_comm_ns, 0)) AS idle_ns,
        left_ns - waits_ns - idle_ns AS moving_ns,
        least(coalesce(save_ns, 0), idle_ns) AS checkpoint_ns,
        least(coalesce(pause_ns, 0), idle_ns - checkpoint_ns) AS gc_ns,
        if(starts_with(coalesce(r.device, ''), 'cpu') AND compute_cpu_ns > 0,
            least(greatest(compute_ns - compute_cpu_ns, 0), compute_ns - recompute_ns), 0)
            AS core_wait_ns,
        greatest(coalesce(k.tp_ns, 0) - coalesce(w.tp_ns, 0), 0) + (k.tp_ns > 0)::BIGINT AS tp,
        greatest(coalesce(k.pp_ns, 0) - coalesce(w.pp_ns, 0), 0) + (k.pp_ns > 0)::BIGINT AS pp,
        greatest(coalesce(k.dp_ns, 0) - coalesce(w.dp_ns, 0), 0) + (k.dp_ns > 0)::BIGINT AS dp,
        greatest(coalesce(k.ep_ns, 0) - coalesce(w.ep_ns, 0), 0) + (k.ep_ns > 0)::BIGINT AS ep,
        greatest(coalesce(k.other_ns, 0) - coalesce(w.other_ns, 0), 0)
            + (k.other_ns > 0)::BIGINT AS other
    FROM cells c LEFT JOIN kinds k USING (attempt, rank, step)
        LEFT JOIN waits w USING (attempt, rank, step) LEFT JOIN ranks r USING (attempt, rank)
),
shared AS (
    SELECT *, coalesce(tp, 0) + coalesce(pp, 0) + coalesce(dp, 0) + coalesce(ep, 0)
        + coalesce(other, 0) AS total, moving_ns / nullif(total, 0) AS unit
    FROM weighed
)
SELECT attempt, rank, step, is_known, window_ns,
    compute_ns - recompute_ns - core_wait_ns AS compute_ns, recompute_ns, core_wait_ns,
    coalesce(unit * tp, 0) AS moving_tp_ns, coalesce(unit * pp, 0) AS moving_pp_ns,
    coalesce(unit * dp, 0) AS moving_dp_ns, coalesce(unit * ep, 0) AS moving_ep_ns,
    if(total > 0, coalesce(unit * other, 0), moving_ns) AS moving_other_ns,
    pipeline_ns, waits_ns - pipeline_ns AS waiting_ns, data_ns, gc_ns, idle_ns - checkpoint_ns - gc_ns AS host_ns,
    checkpoint_ns, window_ns - covered_ns AS unseen_ns
FROM shared;

-- the middle of a sorted list: its length and the three elements a median of all but one can need
CREATE MACRO middle(v) AS
    {'n': len(v), 'a': v[len(v) // 2], 'b': v[len(v) // 2 + 1], 'c': v[len(v) // 2 + 2]};

-- median of a list with this middle, without one occurrence of `own`
CREATE MACRO median_of_others(own, m) AS
    CASE WHEN m.n < 2 THEN NULL
         WHEN m.n % 2 = 0 THEN if(own > m.a, m.a, m.b)
         ELSE (if(own > m.a, m.a, m.b) + if(own > m.b, m.b, m.c)) / 2 END;

-- median of a list with this middle
CREATE MACRO median_of(m) AS if(m.n % 2 = 1, m.b, (m.a + m.b) / 2);

-- slowdown of every rank against its peers in finished steps low..high: compute (CPU time where the
-- job ran on CPU and recorded it) / median of the peers. Peers: the other ranks with the same pp and
-- tp; fewer than 3 of those: the other ranks of the stage; still fewer: its own last 20 steps.
CREATE MACRO slowdowns(wanted, low, high) AS TABLE
WITH work AS (
    SELECT s.attempt, s.rank, s.step, coalesce(r.pp, 0) AS pp, coalesce(r.tp, 0) AS tp,
        starts_with(coalesce(r.device, ''), 'cpu') AND coalesce(s.compute_cpu_ns, 0) > 0 AS is_cpu,
        CAST(if(is_cpu, s.compute_cpu_ns, s.compute_ns) AS DOUBLE) AS work_ns
    FROM chosen_steps(wanted) s LEFT JOIN ranks r USING (attempt, rank)
    WHERE s.step BETWEEN low - 20 AND high AND s.step >= 0 AND s.finished AND s.compute_ns > 0
),
chosen AS (SELECT * FROM work WHERE step >= low),
replicas AS MATERIALIZED (
    SELECT attempt, step, pp, tp, middle(list_sort(list(work_ns))) AS all_ns
    FROM chosen GROUP BY attempt, step, pp, tp
),
few AS (SELECT DISTINCT attempt, step, pp FROM replicas WHERE all_ns.n <= 3),
stages AS (
    SELECT attempt, step, pp, middle(list_sort(list(work_ns))) AS all_ns
    FROM chosen JOIN few USING (attempt, step, pp) GROUP BY attempt, step, pp
),
grouped AS (
    SELECT a.*, CASE WHEN r.all_ns.n > 3 THEN 'dp' WHEN s.all_ns.n > 3 THEN 'stage'
                     ELSE 'own past' END AS peers,
        CASE peers WHEN 'dp' THEN median_of_others(work_ns, r.all_ns)
                   WHEN 'stage' THEN median_of_others(work_ns, s.all_ns) END AS others_ns
    FROM chosen a JOIN replicas r USING (attempt, step, pp, tp)
        LEFT JOIN stages s USING (attempt, step, pp)
),
alone AS (SELECT DISTINCT attempt, rank FROM grouped WHERE peers = 'own past'),
past AS (
    SELECT attempt, rank, step, middle(list_sort(list(work_ns) OVER before)) AS past_ns
    FROM work JOIN alone USING (attempt, rank)
    WINDOW before AS (PARTITION BY attempt, rank ORDER BY step
                      ROWS BETWEEN 20 PRECEDING AND 1 PRECEDING)
)
SELECT g.attempt, g.rank, g.step, g.pp, g.tp, g.peers, g.is_cpu, g.work_ns,
    coalesce(g.others_ns, if(p.past_ns.n >= 3, median_of(p.past_ns), NULL)) AS peers_ns,
    g.work_ns / peers_ns AS slowdown
FROM grouped g LEFT JOIN past p USING (attempt, rank, step);

-- what to add to the times of a host to get aligned ones: its lowest rank's offset
CREATE MACRO host_clocks(wanted) AS TABLE
    SELECT r.host, arg_min(c.offset_ns, c.rank) AS offset_ns
    FROM (SELECT rank, arg_max(offset_ns, valid_from_ns) AS offset_ns
          FROM clock_offsets WHERE attempt = wanted GROUP BY rank) c
        JOIN ranks r ON r.rank = c.rank AND r.attempt = wanted
    WHERE r.host <> '' GROUP BY r.host;

-- samples of machines in one attempt, on the aligned clock; value NULL where it could not be read.
-- Files before schema 1.3 have no device, state and scope. The state decides, not isnan: DuckDB 2.0 takes it
-- for false where a file's statistics, which leave NaN out, have a greatest value.
CREATE MACRO machine_samples(files, wanted) AS TABLE
    SELECT m.host, coalesce(m.device, 'host') AS device, m.metric, m.rank, m.step,
        m.ts_ns + coalesce(c.offset_ns, 0) AS ts_ns,
        if(coalesce(starts_with(m.state, 'unreadable'), isnan(m.value)), NULL, m.value) AS value,
        coalesce(m.state, if(isnan(m.value), 'unreadable: unknown', 'value')) AS state, m.scope
    FROM rows_of(files) m LEFT JOIN host_clocks(wanted) c ON c.host = m.host
    WHERE m.attempt = wanted;

-- samples that could be read, each with what a counter gained since the one before and in how long;
-- gained is NULL where there is none before, and where a counter fell: it began again, and what it
-- gained is not known
CREATE MACRO machine_steps(files, wanted) AS TABLE
    SELECT *, ends_with(metric, '_total') AS is_counter,
        lag(value) OVER series AS past, ts_ns - lag(ts_ns) OVER series AS past_ns,
        coalesce(is_counter AND value < past, false) AS is_reset,
        CASE WHEN is_counter AND value >= past THEN value - past END AS gained
    FROM machine_samples(files, wanted) WHERE value IS NOT NULL
    WINDOW series AS (PARTITION BY host, device, metric, rank ORDER BY ts_ns);
