"""A log larger than memory, cut by user into parts that processes read for themselves."""
