"""From files, frames and matrices to interactions."""
