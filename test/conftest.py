"""TORCHSQUARE_REQUIRE_CUDA=N makes fewer than N GPUs a failure: a GPU run cannot pass by skipping tests."""

import os

import pytest
import torch


def pytest_sessionstart(session):
    required = int(os.environ.get("TORCHSQUARE_REQUIRE_CUDA", "0"))
    if torch.cuda.device_count() < required:
        pytest.exit(f"{required} GPUs are required, and torch finds {torch.cuda.device_count()}", returncode=1)
