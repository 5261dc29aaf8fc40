"""The one training loop: optimiser, schedule, precision, checkpoints, logs. It knows no method by name."""
