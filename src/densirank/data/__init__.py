"""From files, frames and matrices to interactions; knows nothing of models."""
