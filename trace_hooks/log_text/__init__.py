"""Text of logs: what is secret in it, what it means, which lines are equal."""
