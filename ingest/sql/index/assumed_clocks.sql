-- Ranks without an estimate: rank 0 is the reference where others have one; ranks of a job on one single
-- known host share its clock. All others stay unknown, and so do ranks whose clock is recorded so.
INSERT INTO clock_offsets
WITH dated AS (SELECT DISTINCT attempt, rank FROM clock_offsets),
hosts AS (
    SELECT attempt, count(DISTINCT host) = 1 AND count(*) FILTER (coalesce(host, '') = '') = 0
        AS one_host
    FROM ranks GROUP BY attempt
)
SELECT r.attempt, r.rank, -9000000000000000000, 0, 0, 0, 0,
    CASE WHEN one_host THEN 'same_host' ELSE 'reference' END, true
FROM ranks r JOIN hosts USING (attempt)
WHERE NOT EXISTS (FROM dated d WHERE d.attempt = r.attempt AND d.rank = r.rank)
    AND NOT EXISTS (FROM unknown_clocks n WHERE n.attempt = r.attempt AND n.rank = r.rank)
    AND (r.rank = 0 AND EXISTS (FROM dated d WHERE d.attempt = r.attempt)
         OR one_host AND NOT EXISTS (FROM dated d WHERE d.attempt = r.attempt))
