"""Training: batch sampler, training loop, callbacks, checkpoints and interruption."""
