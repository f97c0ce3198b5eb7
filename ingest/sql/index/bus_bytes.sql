-- Bytes an instance has to move over the busiest link of each member for its algorithm, whatever the
-- implementation: NCCL-tests' bus bandwidth times the time
-- (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md). num_bytes is a member's input (recv: output),
-- so all_gather's total, which the factor (n-1)/n applies to, is n times it. NULL: size of the data
-- or of the group unknown, or an operation without a known factor. Whole bytes: their sum is then the
-- same in any order.
CREATE MACRO IF NOT EXISTS bus_bytes(op, num_bytes, members) AS
    CASE WHEN num_bytes <= 0 OR members < 2 THEN NULL
         WHEN op = 'all_reduce' THEN round_even(num_bytes * 2e0 * (members - 1) / members, 0)
         WHEN op = 'all_gather' THEN num_bytes * (members - 1e0)
         WHEN op IN ('reduce_scatter', 'all_to_all') THEN round_even(num_bytes * (members - 1e0) / members, 0)
         WHEN op IN ('broadcast', 'reduce', 'send', 'recv') THEN CAST(num_bytes AS DOUBLE) END;
