# SPDX-License-Identifier: Apache-2.0
"""What a program has computed, said in lines of JSON that tests/gpu/judge.py compares.

    record("losses", losses)    # an array of PyTorch, CuPy, JAX or NumPy, or numbers, or text
    note("requests/s", 512)     # what is worth a look, and compared with nothing
    done()                      # the program's last line, `NAME: ok'

A record has a digest of every byte, for results that are the same in each native run; and 64
elements, always the same ones, and the norm, for those that are not.
"""

import hashlib
import json
import os
import sys

import numpy

SAMPLES = 64


def array_of(value):
    """The value in the host's memory."""
    if hasattr(value, "detach"):  # PyTorch, whose bfloat16 NumPy has not
        value = value.detach().cpu()
        return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    if hasattr(value, "get") and hasattr(value, "device"):  # CuPy
        return value.get()
    if isinstance(value, (list, tuple)) and value and hasattr(value[0], "shape"):
        return numpy.stack([array_of(part) for part in value])
    return numpy.asarray(value)


def describe(value):
    """The record of a value, without its name."""
    if isinstance(value, str):
        return {"text": value}
    array = numpy.ascontiguousarray(array_of(value))
    digest = hashlib.sha256(("%s %s " % (array.dtype, array.shape)).encode())
    digest.update(array.tobytes())
    flat = array.reshape(-1)
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    at = range(flat.size)
    if flat.size > SAMPLES:
        at = numpy.random.default_rng(1).integers(flat.size, size=SAMPLES)
    sample = flat[at].astype(numpy.float64) if flat.size else flat
    return {"digest": digest.hexdigest()[:32], "type": "%s%s" % (array.dtype, list(array.shape)),
            "sample": sample.tolist(),
            "norm": float(numpy.linalg.norm(flat.astype(numpy.float64)))}


def record(name, value):
    print(json.dumps({"record": name, **describe(value)}), flush=True)


def note(name, value):
    print(json.dumps({"note": name, "value": value}), flush=True)


def done():
    print("%s: ok" % os.path.splitext(os.path.basename(sys.argv[0]))[0], flush=True)
