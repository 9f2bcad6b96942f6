"""A model in forms that other systems read: vectors for a database, a graph for a runtime."""
