"""Several processes: joining a run, partitioning a log, and recommending for all users."""
