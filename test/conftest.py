"""TORCHSQUARE_REQUIRE_CUDA=1 makes a missing GPU a failure: a GPU run cannot pass by running on the CPU alone."""

import os

import pytest
import torch


def pytest_sessionstart(session):
    if os.environ.get("TORCHSQUARE_REQUIRE_CUDA") == "1" and not torch.cuda.is_available():
        pytest.exit("TORCHSQUARE_REQUIRE_CUDA=1, but torch finds no GPU", returncode=1)
