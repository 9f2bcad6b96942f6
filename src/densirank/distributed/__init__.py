"""The same work by many processes: training and ranking on torch.distributed."""
