"""The files of a run folder: names, links, run.json, rank files, writing a new run."""
