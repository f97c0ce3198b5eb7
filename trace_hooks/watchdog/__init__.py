"""The process, one per host, that outlives its ranks and reports what became of them."""
