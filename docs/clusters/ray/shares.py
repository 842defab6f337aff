# SPDX-License-Identifier: Apache-2.0
"""Actors and tasks of Ray that each have a quarter of a GPU, with kernels of Numba.

    mps-run ray start --head --num-gpus=1
    RAY_ADDRESS=auto python shares.py
"""

import subprocess

import numpy
import ray
from numba import cuda

# Ray places a process by num_gpus. The variable limits the SMs on which its kernels run.
QUARTER = {"num_gpus": 0.25,
           "runtime_env": {"env_vars": {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25"}}}


@cuda.jit
def add(values, number):
    i = cuda.grid(1)
    if i < values.size:
        values[i] += number


@ray.remote(**QUARTER)
class Column:
    """An actor that keeps numbers on the GPU."""

    def __init__(self, first):
        self.values = cuda.to_device(numpy.arange(first, first + 1000))

    def add(self, number):
        add[8, 128](self.values, number)

    def total(self):
        return int(self.values.copy_to_host().sum())

    def sms(self):
        """How many SMs the process sees."""
        return cuda.get_current_device().MULTIPROCESSOR_COUNT


# The task waits when the program takes no results.
@ray.remote(**QUARTER, num_returns="streaming", _generator_backpressure_num_objects=1)
def totals(first, rounds):
    """A task with several results. It has a process of its own, which ends with it."""
    values = cuda.to_device(numpy.arange(first, first + 1000))
    for number in range(rounds):
        add[8, 128](values, number)
        yield int(values.copy_to_host().sum())


def expected(first, rounds):
    """The total after `rounds' numbers from 0 have been added to 1000 values."""
    return sum(range(first, first + 1000)) + 1000 * sum(range(rounds))


def main():
    ray.init()
    columns = [Column.remote(first) for first in range(2)]
    for column in columns:
        for number in range(10):
            column.add.remote(number)
    tasks = [totals.remote(first, 10) for first in range(2)]
    results = [[ray.get(next(task))] for task in tasks]
    assert ray.get([column.total.remote() for column in columns]) == [
        expected(first, 10) for first in range(2)]
    print("SMs of each actor:", *ray.get([column.sms.remote() for column in columns]))
    print(subprocess.run(["mps-control", "ps"], capture_output=True, text=True, check=True).stdout)
    for task, taken in zip(tasks, results):
        taken += [ray.get(result) for result in task]
    assert results == [[expected(first, n) for n in range(1, 11)] for first in range(2)], results


if __name__ == "__main__":
    main()
