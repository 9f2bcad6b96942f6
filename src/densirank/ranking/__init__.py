"""From vectors to lists: the one path by which anything is ranked."""
