"""Mixtures of experts: how evenly routers load them, and whether micro-batches keep ranks busy."""
