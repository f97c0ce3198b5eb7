-- Rows that are missing or duplicated: numbers of collectives that a rank lacks or repeats in a step
-- while other members of the group have them once, and whole steps that most ranks have. What lies
-- before a rank's first step or after its last one does not count: perhaps it was never recorded.
-- Nor do, while a rank runs, steps of its last 15 s: hooks read what only the flight recorder saw as
-- rarely as its cost demands, 10 s apart where a read takes 0.1 s, and rows of a host may be published
-- later still.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: rank  global rank
-- column: group_id  group of the collectives; NULL: the whole step is missing
-- column: step  optimizer step
-- column: num_lost  collectives (or steps) missing
-- column: num_twice  collectives that are there more than once
-- empty: nothing is missing
WITH rows AS (
    SELECT rank, group_id, step, num_instances AS n, first_seq AS low, last_seq AS high
    FROM chosen_collectives($attempt)
    WHERE peer = -1 AND step >= 0 AND step BETWEEN $step_min AND $step_max
),
steps AS (
    SELECT rank, step, end_ns FROM chosen_steps($attempt)
    WHERE finished AND step >= 0 AND step BETWEEN $step_min AND $step_max
),
settled AS (  -- up to when rows are complete, ns
    SELECT s.rank, max(s.end_ns)
        - if(max(r.ended_ns) IS NULL AND max(r.started_ns) IS NOT NULL,
            15000000000 + coalesce(max(r.publish_every_ns), 0), 0) AS until_ns
    FROM chosen_steps($attempt) s LEFT JOIN ranks r USING (attempt, rank)
    GROUP BY s.rank
),
totals AS (
    SELECT group_id, rank, min(low) AS first, max(high) - min(low) + 1 - sum(n) AS lacking,
        bool_or(n > high - low + 1) AS has_twice
    FROM rows GROUP BY group_id, rank
),
uneven AS (
    SELECT group_id, rank
    FROM (SELECT *, min(first) OVER (PARTITION BY group_id) AS earliest FROM totals)
    WHERE lacking <> 0 OR has_twice OR first > earliest
),
instances AS (  -- what the members together have
    SELECT group_id, step, max(high) - min(low) + 1 AS num, max(n) AS most
    FROM rows SEMI JOIN uneven USING (group_id) GROUP BY group_id, step
),
compared AS (
    SELECT u.rank, u.group_id, i.step, num - coalesce(n, 0) AS lacking,
        greatest(num - most, 0) AS lacking_all, coalesce(n > high - low + 1, false) AS has_twice
    FROM uneven u JOIN instances i USING (group_id)
    JOIN steps s ON s.rank = u.rank AND s.step = i.step
    JOIN settled t ON t.rank = u.rank AND s.end_ns <= t.until_ns
    LEFT JOIN rows r ON r.rank = u.rank AND r.group_id = u.group_id AND r.step = i.step
),
wanted AS (  -- steps that most ranks have
    SELECT step, row_number() OVER (ORDER BY step) AS position FROM steps GROUP BY step
    HAVING 2 * count(*) > (SELECT count(DISTINCT rank) FROM steps)
),
short AS (
    SELECT rank, min(step) AS low, max(step) AS high FROM steps JOIN wanted USING (step)
    GROUP BY rank HAVING count(*) < max(position) - min(position) + 1
),
steps_lost AS (
    SELECT rank, step FROM short JOIN wanted ON step BETWEEN low AND high
    EXCEPT SELECT rank, step FROM steps
)
SELECT rank, group_id, step, CAST(greatest(lacking - lacking_all, 0) AS BIGINT) AS num_lost,
    CAST(if(has_twice, greatest(-lacking, 1), 0) AS BIGINT) AS num_twice
FROM compared WHERE lacking > lacking_all OR has_twice
UNION ALL SELECT rank, NULL, step, 1, 0 FROM steps_lost
ORDER BY rank, step, group_id
