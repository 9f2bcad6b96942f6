"""How good the lists are."""
