"""Data of the page Ranks: grid, heat map, peers, the table and the scales of its colours."""
