"""Threads with a CUDA stream each, forked and spawned processes."""

import contextlib
import itertools
import multiprocessing
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import torch
from common import TestCase, backward_formula, gradients, instantiate, square

THREADS, CALLS = 8, 1000


def count_wrong_calls(thread, device, start):
    """Makes the calls on a stream of its own and returns in how many a result was not exact."""
    is_cuda = torch.device(device).type == "cuda"
    wrong = 0
    with torch.cuda.stream(torch.cuda.Stream(device)) if is_cuda else contextlib.nullcontext():
        x = torch.arange(1000.0, dtype=torch.float64, device=device) + thread  # all products are exact
        start.wait()
        for _ in range(CALLS):
            if is_cuda:
                torch.cuda._sleep(1_000_000)  # half a millisecond: work on any other stream would run ahead of this one
            x = x + 1  # fresh memory, which held another call's numbers
            y, dx = gradients(square, x, grad_output=lambda _, x=x: x)
            wrong += (y != torch.square(x)).any() | (dx != backward_formula(x, x)).any()
    return int(wrong)


def count_wrong_calls_of_threads(devices):
    """A thread on each of the devices, all at once."""
    start = threading.Barrier(len(devices), timeout=60)
    with ThreadPoolExecutor(len(devices)) as pool:
        return list(pool.map(count_wrong_calls, itertools.count(), devices, [start] * len(devices)))


def in_another_process(device, f=square):
    return [tensor.cpu() for tensor in gradients(f, torch.arange(1000.0, device=device), grad_output=torch.cos)]


class TestThreads(TestCase):
    def test_each_thread_on_its_own_stream(self, device):
        self.assertEqual(count_wrong_calls_of_threads([device] * THREADS), [0] * THREADS)

    def test_spawn(self, device):
        expected = in_another_process(device, torch.square)
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            for results in pool.map(in_another_process, [device] * 4):
                self.assertEqual(results, expected)


class TestFork(TestCase):
    def test_fork(self):
        """Forks a process that has used the operators. (CUDA cannot be used in a forked process at all.)"""
        program = """
import multiprocessing, torch, torchsquare

def backward(n):
    x = torch.full((n,), float(n), requires_grad=True)
    torchsquare.square(x).sum().backward()
    return x.grad.tolist()

if __name__ == "__main__":
    torchsquare.square(torch.ones(3))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(backward, [1, 2, 3]))
"""
        output = subprocess.check_output([sys.executable, "-c", program], text=True, timeout=300)
        inputs = [torch.full((n,), float(n)) for n in (1, 2, 3)]
        self.assertEqual(output, f"{[backward_formula(torch.ones_like(x), x).tolist() for x in inputs]}\n")


instantiate(TestThreads, globals())
