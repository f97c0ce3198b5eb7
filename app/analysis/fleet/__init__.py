"""The runs of a folder together: summaries of runs, stored next to their indexes, and a board of
them.
"""
