"""What a fitted ranker can do besides listing items: one file an ability."""
