"""Pages: a path, a pure render and a register each."""
