# SPDX-License-Identifier: Apache-2.0
"""set_per_process_memory_fraction(0.5) holds: a quarter of the GPU's memory is given, a further third
is not, nor is more than half at once; what is freed can be had again.

GPU memory: 40 GiB
"""

import torch
from outputs import done, record


def get(part):
    """That part of the GPU's memory, filled, or None."""
    total = torch.cuda.get_device_properties(0).total_memory
    try:
        return torch.full((int(total * part),), 7, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        return None


def main():
    torch.cuda.set_per_process_memory_fraction(0.5)
    assert torch.cuda.get_per_process_memory_fraction() == 0.5
    assert get(0.51) is None, "more than half was given"
    quarter = get(0.25)
    assert quarter is not None, "a quarter was not given"
    assert get(0.33) is None, "a further third was given"
    record("end of the quarter", quarter[-1000:])
    assert int(quarter[::4096].sum(dtype=torch.int64)) == 7 * len(quarter[::4096])
    del quarter
    torch.cuda.empty_cache()
    again = get(0.24)
    assert again is not None, "what was freed was not given again"
    record("end of the next", again[-1000:])
    done()


if __name__ == "__main__":
    main()
