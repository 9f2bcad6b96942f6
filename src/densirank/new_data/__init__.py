"""After training: people, items and interactions that were not there when a model was fitted."""
