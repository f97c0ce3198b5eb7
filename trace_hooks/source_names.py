"""Names of the sources and of the levels of detail, for settings to check without loading any."""

from __future__ import annotations

SOURCES = {
    "startup": "startup.startup:Startup",
    "modules": "training.modules:Modules",
    "pipeline": "training.pipeline:Pipeline",
    "collectives": "communication.collectives:Collectives",
    "functional": "communication.functional:FunctionalCollectives",
    "ddp": "communication.ddp:DataParallelReducers",
    "flight_recorder": "communication.flight_recorder:FlightRecorder",
    "optimizer": "training.optimizer:Optimizers",
    "data": "training.data_loader:DataLoaders",
    "trainer_logs": "training.trainer_logs:TrainerLogs",
    "gc": "training.garbage_collection:GarbageCollector",
    "checkpoint": "training.checkpoint:Checkpoints",
    "logs": "output.printed_lines:PrintedLines",
    "memory": "training.memory:Memory",
    "perturbing": "perturbation.perturbation:Perturbing",
    "statistics": "tensors.statistics:Statistics",
    "attention_statistics": "tensors.attention_statistics:AttentionStatistics",
    "experts": "experts.experts:Experts",
    "inspection": "inspection.inspection:Inspection",
    "kernel_capture": "profiling.kernel_capture:KernelCapture",
    "prompting": "prompting.prompting:Prompting",
}
"""name: module:class below trace_hooks.sources, in the order of installation."""

LEVELS = ("steps", "blocks", "layers")
"""How much modules record: nothing, whole blocks, or also attention and MLP inside them."""
