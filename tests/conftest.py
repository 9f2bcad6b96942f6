from __future__ import annotations

import os

import pytest
import torch

if not torch.cuda.is_available():  # kernels are interpreted then; they decide when first imported
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tensors in tests are tiny: threads that wait for each other would cost ten times the work."""
    torch.set_num_threads(1)
