"""Runs that a server holds open: the hub, the threads that follow indexes, the cache of answers."""
