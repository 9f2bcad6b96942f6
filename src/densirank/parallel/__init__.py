"""Several processes: how they join a run, share a log, and write the lists of all users."""
