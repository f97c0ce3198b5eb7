"""Data of the pages of a whole run: the list of runs, key figures, the strip of steps, queries."""
