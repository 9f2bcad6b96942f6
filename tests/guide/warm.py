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
import traceback


def keep(path: str) -> None:
    """Serve until killed."""
    import densirank.cli  # noqa: F401  (this is what takes long)

    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        asking, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _fulfil(asking)
            os._exit(0)
        asking.close()


def _fulfil(asking: socket.socket) -> None:
    """Run one command in a process of its own; say which one it is, and how it ended."""
    _, terminal, _, _ = socket.recv_fds(asking, 1, 3)
    with asking.makefile("rw") as words:
        wish = json.loads(words.readline())
        child = os.fork()
        if child == 0:
            _run(wish, terminal)
        print(child, file=words, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=words, flush=True)


def _run(wish: dict[str, object], terminal: list[int]) -> None:
    from densirank.cli import main

    status = 1
    try:
        for number, lent in enumerate(terminal):
            os.dup2(lent, number)
        os.chdir(str(wish["folder"]))
        sys.argv = ["densirank", *wish["words"]]  # type: ignore[misc]
        main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def ask(path: str, words: list[str]) -> int:
    """What the command, run elsewhere, ends with."""
    asking = socket.socket(socket.AF_UNIX)
    asking.connect(path)
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
