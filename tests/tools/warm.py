"""The command ``densirank`` without what every start of it loads.

``warm.py keep SOCKET`` loads everything once and forks for each command that it is asked for;
``warm.py ask SOCKET WORDS`` asks, lends its terminal, passes signals on and ends as the command
did.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial


def keep(path: str) -> None:
    """Serve until killed."""
    from forking import forked

    import densirank.cli.app  # noqa: F401  (this is what takes long)

    listening = socket.socket(socket.AF_UNIX)
    _from_its_folder(listening.bind, path)
    listening.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        asking, _ = listening.accept()
        forked({}, partial(_fulfil, asking))
        asking.close()


def _from_its_folder(act: Callable[[str], None], path: str) -> None:
    """Bind or connect a socket by its bare name: a longer address may not fit into 107 bytes."""
    here = os.getcwd()
    folder, name = os.path.split(path)
    os.chdir(folder)
    try:
        act(name)
    finally:
        os.chdir(here)


def _fulfil(asking: socket.socket) -> None:
    """Run one command in a process of its own; say which one it is, and how it ended."""
    from forking import forked

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, terminal, _, _ = socket.recv_fds(asking, 1, 3)
    with asking.makefile("rw") as words:
        child = forked({}, partial(_run, terminal, **json.loads(words.readline())))
        print(child, file=words, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=words, flush=True)


def _run(terminal: list[int], folder: str, words: list[str]) -> None:
    from densirank.cli.app import main

    for number, lent in enumerate(terminal):
        os.dup2(lent, number)
    os.chdir(folder)
    sys.argv = ["densirank", *words]
    main()


def ask(path: str, words: list[str]) -> int:
    """What the command, run elsewhere, ends with."""
    asking = socket.socket(socket.AF_UNIX)
    _from_its_folder(asking.connect, path)
    socket.send_fds(asking, [b"+"], [0, 1, 2])
    with asking.makefile("rw") as answers:
        print(json.dumps({"folder": os.getcwd(), "words": words}), file=answers, flush=True)
        child = int(answers.readline())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: os.kill(child, number))
        return abs(int(answers.readline()))


if __name__ == "__main__":
    if sys.argv[1] == "keep":
        keep(sys.argv[2])
    sys.exit(ask(sys.argv[2], sys.argv[3:]))
