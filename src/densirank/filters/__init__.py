"""Closed-form scores that need no training, and the one way to combine them with vectors."""
