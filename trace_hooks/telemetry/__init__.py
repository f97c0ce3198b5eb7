"""Telemetry of the machine under the ranks: read by the host's watchdog, rows of `host_metrics`.

`names` lists the metrics, `sampler` reads the sources in time, `publisher` writes what they say.
Nothing here imports torch.
"""
