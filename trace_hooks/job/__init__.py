"""This process in its run: identity, files of the run, layout and clock offsets."""
