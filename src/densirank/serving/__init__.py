"""A fitted model over HTTP: a JSON API, metrics for operators and a web page."""
