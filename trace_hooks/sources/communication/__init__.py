"""Sources that see collectives: torch.distributed, functional collectives, Flight Recorder."""
