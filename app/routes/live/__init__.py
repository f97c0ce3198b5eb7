"""Routes and sockets of running jobs: agents of ranks, live status, capture requests,
perturbing.
"""
