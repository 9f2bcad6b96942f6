"""A model's probabilities set against what happened: the command and its picture."""
