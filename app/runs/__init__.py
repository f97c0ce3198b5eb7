"""Runs that a server holds open: the hub, its cache of answers, threads that follow indexes."""
