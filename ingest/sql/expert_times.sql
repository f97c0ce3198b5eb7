-- How long attention, experts and the all-to-alls between them (dispatch and combine) take on each rank:
-- of a layer and micro-batch, in forwards. Read are the newest 20 of the steps, fewer in large jobs.
-- reads: spans, collectives, expert_load
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: most_rank_steps int = 8000 ranks x steps that are read at most
-- param: attempt int = newest
-- column: rank  global rank
-- column: stage  pipeline stage; NULL unknown
-- column: ep  EP rank: index of the rank in its EP group; NULL none
-- column: group_id  this group; NULL none
-- column: all_to_alls  all-to-alls of its ep groups; those that only exchange sizes do not count
-- column: all_to_all_p50_ms  from entering one to its end, waiting included: median, ms; NULL none
-- column: all_to_all_p99_ms  99th percentile, ms; NULL none
-- column: transfer_ms  latest start to earliest end, 10th percentile, ms (Tc): of asynchronous ones the end is often
--   seen late; NULL where clocks are not aligned
-- column: attention_ms  a forward of attention, median, ms (Ta); NULL not recorded
-- column: expert_ms  a forward of the experts without the communication inside, median, ms (Te); NULL not recorded
-- column: expert_step_ms  the same of all layers and micro-batches of a step, backwards and repeated forwards included:
--   median, ms; NULL not recorded
-- column: micro_batches  attention forwards of one layer before the next layer or the experts begin (m)
-- column: layers  layers with experts on this rank; NULL not recorded
-- column: step_ms  length of a step, median, ms; NULL unknown
-- column: first_step  first step that was read
-- column: last_step  last step that was read
-- empty: neither experts nor all-to-alls on axis ep were recorded in these steps
WITH finished AS (
    FROM whole_steps($attempt, $step_min, $step_max)
),
newest AS (
    SELECT step FROM finished
    QUALIFY row_number() OVER (ORDER BY step DESC) <= least(20, greatest(2, $most_rank_steps // (
        SELECT greatest(count(*), 1) FROM ranks WHERE attempt = $attempt)))
),
ep_places AS (SELECT rank, pp, ep FROM ranks WHERE attempt = $attempt AND ep IS NOT NULL),
like_ep AS (  -- with ep = dp the groups along both have the same members, and axis may be dp
    SELECT group_id
    FROM (SELECT group_id, ranks, unnest(ranks) AS rank FROM group_members WHERE attempt = $attempt)
        JOIN ep_places USING (rank)
    WHERE NOT EXISTS (FROM group_members WHERE attempt = $attempt AND axis = 'ep')
    GROUP BY group_id
    HAVING count(*) > 1 AND count(*) = any_value(len(ranks)) AND count(DISTINCT coalesce(pp, 0)) = 1
        AND count(DISTINCT ep) = count(*) AND count(*) = (SELECT max(ep) + 1 FROM ep_places)
),
ep_groups AS (
    SELECT group_id, unnest(ranks) AS rank, generate_subscripts(ranks, 1) - 1 AS ep, len(ranks) AS num_members
    FROM group_members WHERE attempt = $attempt AND (axis = 'ep' OR group_id IN (FROM like_ep))
),
called AS (
    SELECT c.rank, c.step, c.group_id, c.seq, c.start_ns, c.end_ns, g.ep, g.num_members
    FROM rows_of($collectives) c JOIN ep_groups g USING (group_id, rank)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max AND step IN (FROM newest)
        AND starts_with(op, 'all_to_all') AND end_ns >= 0
    QUALIFY num_bytes < 0 OR num_bytes * 16 >= max(num_bytes) OVER (PARTITION BY c.rank, group_id)
),
aligned AS (
    SELECT c.*, o.offset_ns + CAST(o.drift_ppb * ((c.start_ns - o.ts_ns) / 1e9) AS BIGINT) AS shift_ns
    FROM called c ASOF LEFT JOIN (SELECT * FROM clock_offsets WHERE attempt = $attempt) o
        ON c.rank = o.rank AND c.start_ns >= o.valid_from_ns
),
instances AS (
    SELECT group_id, seq, if(count(shift_ns) = any_value(num_members),
            greatest(min(end_ns + shift_ns) - max(start_ns + shift_ns), 0), NULL) AS transfer_ns
    FROM aligned GROUP BY group_id, seq
),
all_to_alls AS (
    SELECT rank, arg_max(group_id, step) AS group_id, arg_max(ep, step) AS ep, count(*) AS num,
        median(end_ns - start_ns) AS p50_ns, quantile_cont(end_ns - start_ns, 0.99) AS p99_ns,
        quantile_cont(transfer_ns, 0.1) AS transfer_ns
    FROM called JOIN instances USING (group_id, seq) GROUP BY rank
),
routers AS (
    SELECT rank, array_agg(DISTINCT name) AS names, count(DISTINCT (chunk, layer, name)) AS num
    FROM rows_of($expert_load)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max AND step IN (FROM newest) GROUP BY rank
),
named AS (
    SELECT DISTINCT name, regexp_extract(name, '[^.]*$') AS part FROM whole_spans_of($spans)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max AND step IN (FROM newest)
        AND kind IN ('forward', 'backward', 'wgrad')
),
router_names AS (SELECT DISTINCT unnest(names) AS router FROM routers),
beside AS (
    SELECT DISTINCT name FROM named JOIN router_names ON starts_with(router, name) OR starts_with(name, router)
        OR name = regexp_replace(router, '[^.]*$', '') || part
),
parts AS (
    SELECT name, regexp_matches(part, 'attn|attention|^mha$', 'i') AS is_attention,
        regexp_matches(part, 'mlp|feed_?forward|^ffn?$|moe([^a-z]|$)|^experts$', 'i')
            AND (NOT EXISTS (FROM routers) OR name IN (FROM beside)) AS is_experts
    FROM named WHERE NOT regexp_matches(part, 'norm|dropout', 'i')
),
read_spans AS (
    SELECT rank, step, track, ts_ns, greatest(dur_ns, 0) AS dur_ns, kind, name, recompute, is_attention, is_experts
    FROM whole_spans_of($spans) LEFT JOIN parts USING (name)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max AND step IN (FROM newest)
        AND (ends_with(kind, '_comm') OR kind IN ('forward', 'backward', 'wgrad') AND (is_attention OR is_experts))
        AND rank IN (SELECT rank FROM all_to_alls UNION SELECT rank FROM routers)
),
attention AS (
    SELECT * FROM read_spans WHERE kind = 'forward' AND NOT recompute AND is_attention
),
experts AS (
    SELECT * FROM read_spans WHERE is_experts AND NOT ends_with(kind, '_comm')
),
communicating AS (
    SELECT e.rank, e.step, e.track, e.ts_ns, c.ts_ns AS begin_ns,
        least(c.ts_ns + c.dur_ns, e.ts_ns + e.dur_ns) AS end_ns
    FROM (FROM read_spans WHERE ends_with(kind, '_comm')) c ASOF JOIN experts e
        ON c.rank = e.rank AND c.step = e.step AND c.track = e.track AND c.ts_ns >= e.ts_ns
    WHERE c.ts_ns < e.ts_ns + e.dur_ns
),
beyond_others AS (  -- several at once, or one within another, take the time of their union
    SELECT *, greatest(begin_ns, coalesce(max(end_ns) OVER (
            PARTITION BY rank, step, track, ts_ns ORDER BY begin_ns, end_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), begin_ns)) AS from_ns
    FROM communicating
),
inside AS (
    SELECT rank, step, track, ts_ns, sum(greatest(end_ns - from_ns, 0)) AS comm_ns
    FROM beyond_others GROUP BY rank, step, track, ts_ns
),
computing AS (
    SELECT e.*, greatest(e.dur_ns - coalesce(i.comm_ns, 0), 0) AS own_ns
    FROM experts e LEFT JOIN inside i USING (rank, step, track, ts_ns)
),
computed AS (
    SELECT rank, median(own_ns) AS expert_ns, count(DISTINCT name) AS layers
    FROM computing WHERE kind = 'forward' AND NOT recompute GROUP BY rank
),
step_sums AS (
    SELECT rank, median(own_ns) AS step_ns
    FROM (SELECT rank, step, sum(own_ns) AS own_ns FROM computing GROUP BY rank, step) GROUP BY rank
),
in_order AS (
    SELECT rank, step, ts_ns, is_attention, name, dur_ns, is_attention AND (
            lag(is_attention) OVER w AND lag(name) OVER w = name) IS NOT TRUE AS begins
    FROM (SELECT rank, step, ts_ns, name, dur_ns, true AS is_attention FROM attention
          UNION ALL SELECT rank, step, ts_ns, name, dur_ns, false
          FROM experts WHERE kind = 'forward' AND NOT recompute)
    WINDOW w AS (PARTITION BY rank, step ORDER BY ts_ns)
),
attended AS (
    SELECT rank, median(dur_ns) AS attention_ns,
        CAST(round(count(*) / greatest(count(*) FILTER (begins), 1)) AS BIGINT) AS micro_batches
    FROM in_order WHERE is_attention GROUP BY rank
),
lengths AS (
    SELECT rank, median(window_ns) AS step_ns, min(step) AS first_step, max(step) AS last_step
    FROM step_rollup WHERE attempt = $attempt AND finished AND step IN (FROM newest) GROUP BY rank
),
everyone AS (
    SELECT rank FROM all_to_alls UNION SELECT rank FROM routers
)
SELECT rank, p.pp AS stage, a.ep, a.group_id, coalesce(a.num, 0) AS all_to_alls,
    a.p50_ns / 1e6 AS all_to_all_p50_ms, a.p99_ns / 1e6 AS all_to_all_p99_ms, a.transfer_ns / 1e6 AS transfer_ms,
    t.attention_ns / 1e6 AS attention_ms, e.expert_ns / 1e6 AS expert_ms,
    u.step_ns / 1e6 AS expert_step_ms, t.micro_batches,
    coalesce(r.num, e.layers) AS layers, l.step_ns / 1e6 AS step_ms, l.first_step, l.last_step
FROM everyone LEFT JOIN (FROM ranks WHERE attempt = $attempt) p USING (rank)
    LEFT JOIN all_to_alls a USING (rank) LEFT JOIN attended t USING (rank) LEFT JOIN computed e USING (rank)
    LEFT JOIN step_sums u USING (rank)
    LEFT JOIN routers r USING (rank) LEFT JOIN lengths l USING (rank)
ORDER BY rank
