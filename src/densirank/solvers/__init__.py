"""Solvers for the vector of a single user, shared by training and fold-in."""
