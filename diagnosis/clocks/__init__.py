"""Clocks of ranks, aligned by what collectives say: offsets, and how sure they are."""
