-- One collective (or all sends and receives of that number) on all its members, on the aligned
-- clock: who arrived last, who waited, how long data moved.
-- reads: collectives
-- param: group_id int required
-- param: seq int required
-- param: src int = null only the send or receive from this rank
-- param: dst int = null only the send or receive to this rank
-- param: attempt int = newest
-- column: rank  global rank
-- column: op  operation
-- column: src  sender of a send or receive; -1 none
-- column: dst  its receiver; -1 none
-- column: tag  its tag; -1 none
-- column: step  optimizer step
-- column: num_bytes  bytes of this member; -1 unknown
-- column: state  enqueued, started, completed or failed
-- column: start_ns  when this member was ready, Unix ns on its own clock
-- column: aligned_start_ns  the same on rank 0's clock; NULL where its offset is unknown
-- column: aligned_end_ns  when it saw the end, on rank 0's clock; NULL not yet or unknown
-- column: wait_us  latest start - own start, us; NULL where not all members are there and aligned
-- column: wait_caused_us  for the last arriver: (start - second latest start) x (members - 1), us
-- column: transfer_us  earliest end - latest start, us; NULL unknown
-- column: bandwidth_gb_s  bus bandwidth (as in collectives_by_group), 1e9 B/s; NULL unknown
-- column: is_last  whether it arrived last (false for all where two arrived last together)
-- column: reason  why wait and transfer are NULL: missing members, unknown clock; NULL if they are not
-- empty: no member recorded this instance
WITH rows AS (
    SELECT c.*,
        CASE op WHEN 'send' THEN c.rank WHEN 'recv' THEN peer ELSE -1 END AS src,
        CASE op WHEN 'send' THEN peer WHEN 'recv' THEN c.rank ELSE -1 END AS dst,
        CASE WHEN op IN ('send', 'recv') THEN c.tag ELSE -1 END AS of_tag,
        c.start_ns + o.offset_ns
            + CAST(o.drift_ppb * ((c.start_ns - o.ts_ns) / 1e9) AS BIGINT) AS start_al
    FROM (SELECT * FROM rows_of($collectives)
          WHERE attempt = $attempt AND group_id = $group_id AND seq = $seq) c
    ASOF LEFT JOIN (SELECT * FROM clock_offsets WHERE attempt = $attempt) o
        ON c.rank = o.rank AND c.start_ns >= o.valid_from_ns
),
wanted AS (
    SELECT *, CASE WHEN end_ns >= 0 THEN end_ns + (start_al - start_ns) END AS end_al
    FROM rows WHERE ($src IS NULL OR src = $src) AND ($dst IS NULL OR dst = $dst)
),
instances AS (
    SELECT w.src, w.dst, w.of_tag, count(*) AS seen, max(start_al, 2) AS latest,
        min(end_al) AS first_end, bool_and(start_al IS NOT NULL) AS aligned,
        bool_and(end_ns >= 0) AS complete,
        if(any_value(op) IN ('send', 'recv'), 2, coalesce(any_value(len(g.ranks)), 2)) AS expected
    FROM wanted w
    LEFT JOIN (SELECT * FROM group_members WHERE attempt = $attempt) g USING (group_id)
    GROUP BY w.src, w.dst, w.of_tag
),
judged AS (
    SELECT w.*, i.latest, i.first_end, i.seen, i.complete, bus_bytes(op, num_bytes, expected) AS bus,
        CASE WHEN NOT aligned THEN 'a member''s clock is not aligned'
             WHEN seen < expected THEN 'members are missing: ' || seen || ' of ' || expected
        END AS reason
    FROM wanted w JOIN instances i USING (src, dst, of_tag)
)
SELECT rank, op, src, dst, of_tag AS tag, step, num_bytes, state, start_ns,
    start_al AS aligned_start_ns, end_al AS aligned_end_ns,
    if(reason IS NULL, latest[1] - start_al, NULL) / 1e3 AS wait_us,
    CASE WHEN reason IS NULL AND start_al = latest[1] THEN (latest[1] - latest[2]) * (seen - 1)
         WHEN reason IS NULL THEN 0 END / 1e3 AS wait_caused_us,
    if(reason IS NULL AND complete, greatest(first_end - latest[1], 0), NULL) / 1e3 AS transfer_us,
    bus / nullif(transfer_us * 1e3, 0) AS bandwidth_gb_s,
    reason IS NULL AND start_al = latest[1] AND latest[1] > latest[2] AS is_last, reason
FROM judged ORDER BY src, dst, of_tag, start_al, rank
