"""Small recorded runs, the jobs that record them, and a generator of synthetic ones."""
