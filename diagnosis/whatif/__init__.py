"""What-if analysis of stragglers: how long a job would take without some of its delays.

Method: "Understanding Stragglers in Large Model Training Using What-if Analysis" (arXiv
2505.05713). Operations of all cells become arrays (`operations`), their dependencies a graph built
once (`graph`), waiting is taken out of communication (`transfers`), and all scenarios are replayed
at once (`replay`); `analysis` puts them together. Words: a *cell* is one (dp rank, stage), called
worker by the paper; its ranks, a tensor-parallel group say, are its *members*; an *op* is one
operation of a stage in every step and on every dp rank.

Shape suffixes: O op, S step, D dp rank, P stage, T member, K scenario, N row of a table. Times in
seconds.
"""
