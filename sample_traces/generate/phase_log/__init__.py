"""Synthetic jobs whose ranks log the phases of each step, and in which waiting hides.

A step of a rank is its own data wait, compute and what no timer covers; then all ranks meet in a
collective, which ends for all of them at once, so that every rank but the latest waits. The log
shows this wait inside whatever timer runs where the CPU blocks: that of compute, of data, of the
communication, or none. Arrays are (S, R), step by rank, in milliseconds.
"""
