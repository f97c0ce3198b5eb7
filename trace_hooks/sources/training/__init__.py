"""Sources that see a training step: modules, optimizer, data loader, checkpoint, memory."""
