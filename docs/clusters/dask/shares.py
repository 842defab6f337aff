# SPDX-License-Identifier: Apache-2.0
"""Workers of Dask that each have a quarter of a GPU, with kernels of Numba.

    dask scheduler &
    export DASK_SCHEDULER_ADDRESS=tcp://HOST:8786
    CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25 mps-run dask worker --nworkers 4 --nthreads 1 &
    python shares.py
"""

import subprocess

import numpy
from dask.distributed import Client, wait
from numba import cuda


@cuda.jit
def square(values):
    i = cuda.grid(1)
    if i < values.size:
        values[i] *= values[i]


def sum_of_squares(first):
    """A task, which runs in one of the workers."""
    values = cuda.to_device(numpy.arange(first, first + 1000))
    square[8, 128](values)
    return int(values.copy_to_host().sum())


def sms():
    """How many SMs the worker sees."""
    return cuda.get_current_device().MULTIPROCESSOR_COUNT


def main():
    client = Client()
    client.wait_for_workers(4)
    print("SMs of each worker:", *client.run(sms).values())
    results = client.map(sum_of_squares, range(0, 12000, 1000))
    wait(results)
    assert sum(client.gather(results)) == sum(i * i for i in range(12000))
    print(subprocess.run(["mps-control", "ps"], capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    main()
