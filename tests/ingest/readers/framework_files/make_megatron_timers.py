"""Makes megatron_timers.log: timers of Megatron-core on two CPU processes.

torchrun --nproc-per-node 2 make_megatron_timers.py 2> megatron_timers.log
"""

from __future__ import annotations

import logging
import time

import torch
import torch.distributed as dist
from megatron.core.timers import Timers

NAMES = ["forward-backward", "forward-compute", "optimizer"]

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    torch.cuda.current_device = lambda: "cpu"
    torch.cuda.synchronize = lambda *_: None
    dist.init_process_group("gloo")
    for option in ("all", "minmax"):
        timers = Timers(2, option)
        for name in NAMES:
            timers(name, log_level=0).start()
            time.sleep(0.01 * (1 + dist.get_rank()))
            timers(name).stop()
        timers.log(NAMES, normalizer=1)
