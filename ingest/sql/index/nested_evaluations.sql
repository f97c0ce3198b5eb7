-- Forget evaluations that lie in another one; the inner one may have been recorded first.
DELETE FROM evaluations WHERE (attempt, rank, begin_ns) IN (
    SELECT (attempt, rank, begin_ns) FROM evaluations QUALIFY end_ns <= max(end_ns) OVER (
        PARTITION BY attempt, rank ORDER BY begin_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
