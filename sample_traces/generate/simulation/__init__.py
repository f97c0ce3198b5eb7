"""When everything in a synthetic job happens: what faults do to durations, and their replay."""
