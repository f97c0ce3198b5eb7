"""The source that captures content of tensors on request: attention, activations, logits."""
