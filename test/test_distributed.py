"""Two processes, on gloo and on NCCL: DTensor, DistributedDataParallel and FSDP2, against torch.square."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

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
    def test_two_processes(self, backend):
        script = str(Path(__file__).with_name("distributed.py"))
        with tempfile.TemporaryDirectory() as directory:
            processes = [
                subprocess.Popen(
                    [sys.executable, script, backend, str(Path(directory) / "rendezvous"), str(rank)],
                    # DTensor iterates over sets of placements: the processes must agree, whatever the order.
                    env={**os.environ, "PYTHONHASHSEED": seed},
                )
                for rank, seed in enumerate(["0", "7"])
            ]
            for process in processes:
                self.addCleanup(process.kill)  # it may wait for the other one, which has failed
            self.assertEqual([process.wait(timeout=180) for process in processes], [0, 0])


if __name__ == "__main__":
    run_tests()
