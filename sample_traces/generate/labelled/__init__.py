"""Jobs with faults drawn at random, each with what a diagnosis should find."""
