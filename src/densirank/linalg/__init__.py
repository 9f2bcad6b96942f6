"""Sparse rows and products of sparse matrices, in bounded memory."""
