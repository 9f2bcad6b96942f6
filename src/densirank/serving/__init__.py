"""A fitted model behind HTTP: a JSON API, metrics for operators, and a page for people."""
