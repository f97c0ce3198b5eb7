"""The machines under the ranks: how hosts differ, what changed, what could not be read."""
