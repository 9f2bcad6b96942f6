"""``python -m densirank`` is the command line."""

from densirank.cli.app import main

if __name__ == "__main__":
    main()
