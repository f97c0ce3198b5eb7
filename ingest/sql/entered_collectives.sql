-- Where each rank stands in each group: the newest collectives and messages that it entered, and the
-- first that it has not been seen to complete. Of what has no number that its members share, only
-- open messages are there, with numbers from 2^40 on, which differ on their two sides.
-- reads: entered, collectives
-- param: attempt int = newest
-- param: step_min int = null from the first step
-- column: rank  global rank
-- column: group_id  identity of the group
-- column: seq  number of the instance; of messages per source, destination and tag
-- column: op  its operation
-- column: dtype  of its data, empty unknown
-- column: num_bytes  of this member's input; -1 unknown
-- column: peer  other global rank of a message; -1 none
-- column: tag  of a message; -1 none
-- column: enqueue_ns  when the call began, Unix ns on the aligned clock where there is one
-- column: state  entered, completed, or unknown; a call that failed after it was seen waiting has entered
-- column: source  ring: from node-local memory; else what recorded it
-- column: stack  of the call, one frame per line, innermost first; NULL unknown
-- empty: no collectives were recorded
WITH newest_look AS (
    SELECT rank, max(ts_ns) AS ts_ns FROM rows_of($entered) WHERE attempt = $attempt GROUP BY rank
),
seen AS (
    SELECT e.rank, group_id, seq, op, dtype, num_bytes, peer, tag, enqueue_ns, state,
        coalesce(e.source, 'ring') AS source, e.stack
    FROM rows_of($entered) e JOIN newest_look USING (rank, ts_ns) WHERE attempt = $attempt
    UNION ALL BY NAME
    SELECT rank, group_id, seq, op, dtype, num_bytes, peer, tag, enqueue_ns,
        CASE WHEN state = 'failed' THEN 'unknown' WHEN end_ns >= 0 OR state = 'completed' THEN 'completed'
            ELSE 'entered' END AS state, source, NULL AS stack
    FROM rows_of($collectives)
    WHERE attempt = $attempt AND ($step_min IS NULL OR step >= $step_min)
        AND (seq < 2147483648 OR (peer >= 0 AND end_ns < 0 AND state IN ('enqueued', 'started')))
),
once AS (
    SELECT rank, group_id, seq, peer, tag, op, any_value(dtype) AS dtype, max(num_bytes) AS num_bytes,
        min(enqueue_ns) AS enqueue_ns, arg_min(source, source <> 'ring') AS source,
        any_value(stack) AS stack,
        CASE WHEN bool_or(state = 'completed') THEN 'completed'
            WHEN bool_or(state = 'entered' AND source = 'ring') THEN 'entered'
            WHEN bool_or(state = 'unknown') THEN 'unknown' ELSE 'entered' END AS state
    FROM seen GROUP BY rank, group_id, seq, peer, tag, op
),
numbered AS (
    SELECT *,
        row_number() OVER (PARTITION BY rank, group_id, peer, op = 'send' ORDER BY seq DESC) AS from_end,
        row_number() OVER (PARTITION BY rank, group_id, peer, op = 'send', state ORDER BY seq) AS of_state
    FROM once
),
clocks AS (
    SELECT rank, arg_max(offset_ns, valid_from_ns) AS offset_ns FROM clock_offsets
    WHERE attempt = $attempt GROUP BY rank
)
SELECT rank, group_id, seq, op, dtype, num_bytes, peer, tag, enqueue_ns + coalesce(offset_ns, 0) AS enqueue_ns,
    state, source, stack
FROM numbered LEFT JOIN clocks USING (rank)
WHERE from_end <= 3 OR (state = 'entered' AND of_state <= CASE WHEN seq < 2147483648 THEN 2 ELSE 64 END)
ORDER BY rank, group_id, seq, op
