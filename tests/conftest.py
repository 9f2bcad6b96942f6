from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tensors in tests are tiny: threads that wait for each other would cost ten times the work."""
    torch.set_num_threads(1)
