"""Closed forms and small problems of one user, which training and fold-in share."""
