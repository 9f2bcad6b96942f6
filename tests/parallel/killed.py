"""``densirank``, of which process 1 is killed with -9 while it writes its 12th checkpoint.

Once: those that torchrun starts in its place live.
"""

from __future__ import annotations

import os
import signal
from itertools import count
from typing import Any
from unittest import mock

from torch.distributed.checkpoint.state_dict_saver import save

from densirank.cli import app as cli
from densirank.training import sharded_checkpoint

turns = count(1)


def save_or_die(*given: Any, **named: Any) -> Any:
    first_life = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if first_life and os.environ["RANK"] == "1" and next(turns) == 12:
        os.kill(os.getpid(), signal.SIGKILL)
    return save(*given, **named)


if __name__ == "__main__":
    with mock.patch.object(sharded_checkpoint, "save", save_or_die):
        cli.main()
