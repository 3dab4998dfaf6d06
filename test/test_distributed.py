"""Two processes, on gloo and on NCCL: DTensor, DistributedDataParallel and FSDP2, against torch.square."""

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import distributed
import torch
from torch.testing._internal.common_utils import (
    TestCase,
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    subtest,
)

needs_two_gpus = unittest.skipIf(torch.cuda.device_count() < 2, "needs two GPUs")


@instantiate_parametrized_tests
class TestDistributed(TestCase):
    @parametrize("backend", ["gloo", subtest("nccl", decorators=[needs_two_gpus])])
    @mock.patch.dict(os.environ, PYTHONHASHSEED="0")
    def test_two_processes(self, backend):
        # One hash seed for both: for an operator without a sharding strategy of its own DTensor takes, of equal costs,
        # what a set of placements gives first. With different seeds the backward of a Partial can differ between the
        # processes, and one of them enters a collective that the other does not.
        with tempfile.TemporaryDirectory() as directory:
            torch.multiprocessing.spawn(distributed.main, (backend, str(Path(directory) / "rendezvous")), nprocs=2)


if __name__ == "__main__":
    run_tests()
