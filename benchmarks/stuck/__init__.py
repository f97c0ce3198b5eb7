"""Real jobs that get stuck in known ways: what is reported of them, and how soon."""
