"""A simulated job as tables of a run folder."""
