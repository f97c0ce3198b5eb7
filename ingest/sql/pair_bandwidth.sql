-- The bandwidth that ordinary steps achieved between each two hosts, and inside each: of the messages
-- between them, and of the collectives of groups that have both (as fast as the group's slowest link, so
-- a pair achieves at least that of its fastest group).
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: max_hosts int = 64 groups on more hosts say little of any one pair; they are left out
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: host  one host, by name
-- column: peer_host  the other one, later in the order of names; the same: ranks of one host
-- column: bandwidth_gb_s  bus bandwidth (as in collectives_by_group) of the fastest of these, 1e9 B/s
-- column: lowest_gb_s  of the slowest of these
-- column: source  what achieved it: messages, or the axis of a group (or its name)
-- column: num_channels  groups and pairs of ranks that were compared
-- column: num_bytes  bytes that all of them moved, as the algorithm moves them over a link
-- empty: no collective or message with a known size and transfer time between ranks of known hosts
WITH moved AS (
    SELECT attempt, group_id, peer, rank, sum(bus_bytes) AS num_bytes, sum(bus_ns) AS ns
    FROM chosen_collectives($attempt)
    WHERE step BETWEEN $step_min AND $step_max AND bus_bytes > 0 AND bus_ns > 0
    GROUP BY attempt, group_id, peer, rank
),
channels AS (
    SELECT attempt, group_id, if(peer < 0, -1, least(rank, peer)) AS low,
        if(peer < 0, -1, greatest(rank, peer)) AS high, max(num_bytes) AS num_bytes,
        sum(num_bytes) / sum(ns) AS gb_s
    FROM moved GROUP BY attempt, group_id, low, high
),
places AS (SELECT attempt, rank, host FROM ranks WHERE host <> ''),
messages AS (
    SELECT a.host AS one, b.host AS other, 'messages' AS source, gb_s, num_bytes
    FROM channels c JOIN places a ON a.attempt = c.attempt AND a.rank = c.low
    JOIN places b ON b.attempt = c.attempt AND b.rank = c.high WHERE c.low >= 0
),
members AS (
    SELECT DISTINCT attempt, group_id, axis, name, host
    FROM (SELECT attempt, group_id, axis, name, unnest(ranks) AS rank FROM group_members)
    JOIN places USING (attempt, rank)
),
small AS (
    SELECT attempt, group_id, count(*) AS num_hosts FROM members GROUP BY attempt, group_id
    HAVING num_hosts <= $max_hosts
),
collectives AS (
    SELECT a.host AS one, b.host AS other,
        if(a.axis IS NULL OR a.axis = 'unknown', coalesce(a.name, 'a group'), a.axis) AS source, gb_s, num_bytes
    FROM channels c JOIN small s USING (attempt, group_id)
    JOIN members a USING (attempt, group_id) JOIN members b USING (attempt, group_id)
    WHERE c.low < 0 AND (s.num_hosts = 1 OR a.host < b.host)
),
achieved AS (SELECT * FROM messages UNION ALL SELECT * FROM collectives)
SELECT least(one, other) AS host, greatest(one, other) AS peer_host, max(gb_s) AS bandwidth_gb_s,
    min(gb_s) AS lowest_gb_s, arg_max(source, gb_s) AS source, count(*) AS num_channels,
    CAST(sum(num_bytes) AS BIGINT) AS num_bytes
FROM achieved GROUP BY least(one, other), greatest(one, other) ORDER BY host, peer_host
