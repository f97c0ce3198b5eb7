"""Data of the page What-if: the analysis of a run, and its answer for the browser."""
