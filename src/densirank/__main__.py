"""``python -m densirank`` is the command line."""

from densirank.cli import main

if __name__ == "__main__":
    main()
