"""From vectors to lists: the one path that every ranking takes."""
