"""One sampler of batches, one loop, and what surrounds it: callbacks, checkpoints, Ctrl-C."""
