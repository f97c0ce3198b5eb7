"""The one generator of synthetic jobs with labelled faults: durations, max-plus replay, tables.

Shapes: S step, M micro-batch, P pipeline stage, D data-parallel, T tensor-parallel, R rank = PDT.
All times are int64 nanoseconds. A step is, per rank: data wait, parameter all-gather over D, the
1F1B pipeline (every forward and backward ends in an all-reduce over T; sends and receives between
stages), gradient reduce-scatter over D, gradient norm over all ranks, optimizer.
"""
