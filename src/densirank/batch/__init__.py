"""Recommendations for everybody, in parts."""
