"""Jobs that make no progress: where every rank stands, who waits for whom, and why."""
