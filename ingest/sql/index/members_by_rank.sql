-- What the rollups of spans need of collective_members, in pieces of neighbouring ranks.
SELECT rank, step, start_ns, last_start_ns, first_end_ns, wait_ns, transfer_ns, is_late, usable,
    rank // $ranks_of_piece AS piece
FROM collective_members
