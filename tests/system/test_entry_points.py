#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""Every symbol of cuda.h and its neighbours: supported, or refused on purpose.

A Python client makes calls through ctypes and checks their results.
"""

import json
import os
import re
import subprocess
import sys

import harness
import mps
from harness import equal

GEN = os.path.join(harness.BUILD, "gen")
NOT_SUPPORTED = 801
ROW = re.compile(r"^\| (cu[A-Z]\w+) \| (.+) \|$", re.M)

# The client's program; `call' takes any arguments, and integers are as wide as pointers.
CLIENT = """
import ctypes, json, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    return getattr(cuda, name)(*arguments)
def must(name, *arguments):
    result = call(name, *arguments)
    assert result == 0, (name, result)
def table(uuid):
    words = ctypes.POINTER(ctypes.c_size_t)()
    return call("cuGetExportTable", ctypes.byref(words), bytes.fromhex(uuid)), words
def slot(uuid, n, *arguments):
    return ctypes.CFUNCTYPE(ctypes.c_int)(table(uuid)[1][n])(*arguments)
zeros = [ctypes.c_void_p(0)] * 16
"""


def ask(service, body, *args, env=None):
    """Runs `body' in a client; returns its output as JSON."""
    code, out, err = service.run(sys.executable, "-c", CLIENT + body, *args, env=env)
    equal(code, 0, out + err)
    return json.loads(out)


def coverage():
    """(symbols served, all symbols, {symbol: how}) of build/gen/coverage.md."""
    with open(os.path.join(GEN, "coverage.md"), encoding="utf-8") as file:
        text = file.read()
    n_served, n = re.match(r"(\d+) of (\d+) symbols served\n", text).groups()
    return int(n_served), int(n), dict(ROW.findall(text))


def is_refused(how):
    return how == "not yet" or how.startswith("refused: ")


def declared():
    """Symbols that the headers declare, old versions too."""
    cuda = subprocess.run([harness.ROOT + "/tests/setup", "--cuda"], capture_output=True,
                          text=True, check=True).stdout.strip()
    text = subprocess.run(
        ["gcc", "-E", "-P", "-D__CUDA_API_VERSION_INTERNAL",
         "-I" + os.path.join(harness.ROOT, cuda, "include"), "-include", "cuda.h",
         "-include", "cudaProfiler.h", "-x", "c", "/dev/null"],
        capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\bCUresult\s+(cu[A-Z]\w+)\s*\(", text))


def test_coverage():
    n_served, n, symbols = coverage()
    equal(n, 637)
    missing = declared() - set(symbols)
    equal(missing, set(), "cuda.h has these as well")
    # The other 34 belong to GL, EGL and VDPAU; cuda.h does not declare them.
    refused = {name for name, how in symbols.items() if is_refused(how)}
    foreign = {name for name in refused if re.match(r"cu(GL|EGL|VDPAU|Graphics(GL|EGL|VDPAU))", name)
               or name == "cuGraphicsResourceGetMappedEglFrame"}
    equal(len(symbols) - n, len(foreign), foreign)
    equal(len(symbols) - len(refused), n_served)


def test_refused_calls():
    """An unsupported function returns that at once, for any arguments."""
    refused = sorted(name for name, how in coverage()[2].items() if is_refused(how))
    with mps.Service() as service:
        answers = ask(service, """
must("cuInit", 0)
print(json.dumps({name: call(name, *zeros) for name in json.loads(sys.argv[1])}))
""", json.dumps(refused), env={"MPS_CLIENT_LOG": "error"})
        equal({name: code for name, code in answers.items() if code != NOT_SUPPORTED}, {})
        equal(len(answers), len(refused))
        service.run_ok("process1")


LOGS = """
words = []
@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
def hear(_, level, message, length):
    words.append([level, ctypes.string_at(message, length).decode()])
def dump(iterator, room):
    buffer, size = ctypes.create_string_buffer(b"x" * 65536), ctypes.c_size_t(room)
    result = call("cuLogsDumpToMemory", iterator, buffer, ctypes.byref(size), 0)
    assert size.value < room
    assert buffer.raw[size.value] == (0 if size.value or result else ord("x"))
    return [result, buffer.raw[:size.value].decode()]
must("cuInit", 0)
handle, start, number = ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_uint()
must("cuLogsRegisterCallback", hear, None, ctypes.byref(handle))
must("cuLogsCurrent", ctypes.byref(start), 0)
number.value = start.value
call("cuGLInit")
call("cuVDPAUGetDevice", 0, 0, 0)
said = {"heard": words[:], "all": dump(None, 65536), "none": dump(None, 20),
        "new": dump(ctypes.byref(start), 65536), "rest": dump(ctypes.byref(start), 65536)}
must("cuLogsDumpToFile", ctypes.byref(number), sys.argv[1].encode(), 0)
must("cuLogsUnregisterCallback", handle)
assert call("cuLogsUnregisterCallback", handle) == 1
call("cuEGLStreamConsumerConnect", 0, 0)
said["heard after"], said["short"] = len(words), dump(None, 300)
print(json.dumps(said))
"""


def refused(name, code):
    names = {1: "CUDA_ERROR_INVALID_VALUE", 801: "CUDA_ERROR_NOT_SUPPORTED"}
    return [0, "Returning %d (%s) from %s" % (code, names[code], name)]


def lines(answer):
    """The lines of the log, without times and threads."""
    equal(answer[0], 0)
    found = re.findall(r"^\[[0-9:.]{12}\]\[[0-9]+\]\[CUDA\]\[([EW])\] (.*)\n", answer[1], re.M)
    equal(len(found), answer[1].count("\n"))
    return [[int(level == "W"), word] for level, word in found]


def test_logs():
    """The program can read failed calls, errors and warnings, with every log setting."""
    with mps.Service() as service:
        path = os.path.join(service.folder, "words")
        said = ask(service, LOGS, path, env={"MPS_CLIENT_LOG": "error"})
        first = [word for name in ("cuGLInit", "cuVDPAUGetDevice") for word in
                 ([1, "%s: graphics resources need a context in the program's own process" % name],
                  refused(name, 801))]
        second = [refused("cuLogsDumpToMemory", 1)]
        equal(said["heard"], first)
        equal(said["heard after"], 5)
        equal(lines(said["all"]), first)
        equal(lines(said["new"]), first + second)
        equal(said["rest"], [0, ""])
        equal(said["none"], [1, ""])
        notice, last = said["short"][1].split("\n", 1)
        equal(notice, "The provided buffer is not large enough to hold all messages. "
                      "Some messages will be missing")
        equal(lines([0, last]), [refused("cuEGLStreamConsumerConnect", 801)])
        with open(path, encoding="utf-8") as file:
            equal(lines([0, file.read()]), first + second)


# The number of words in each private table of driver 580; that of storage does not state it.
TABLES = {
    "6bd5fb6c5bf4e74a8987d93912fd9df9": 13,
    "a094798c2e742e7493f20800200c0a66": 7,
    "42d85a8123f6cb478298f6e78a3aecdc": 3,
    "263e88607cd2614392f6bbd5006dfa7e": 15,
    "d4082055bde6704b8d34ba123c66e1f2": 3,
    "21318c60971432488ca641ff7324c8f2": 93,
    "6e163fbeb958444d835ce182aff1991e": 99,
    "1734dc26800d47458726c0f1e7dd8bca": 17,
    "7cb63f9b9ca48e42a484beb66e6aed7f": 67,
}


def test_tables():
    """Private tables have the driver's size before cuInit(); an unknown table is refused."""
    with mps.Service() as service:
        answers, unknown = ask(service, """
def size(uuid):
    result, words = table(uuid)
    return [result, words[0] if words else None]
print(json.dumps([{uuid: size(uuid) for uuid in json.loads(sys.argv[1])}, size("5a" * 16)]))
""", json.dumps(list(TABLES)))
        equal(answers, {table: [0, 8 * words] for table, words in TABLES.items()})
        equal(unknown, [1, None])


def test_tools_table_refuses():
    """CUPTI from 13.2 on begins with its table, and searches for a function past its last word."""
    with mps.Service() as service:
        answers = ask(service, """
tools = "7cb63f9b9ca48e42a484beb66e6aed7f"
print(json.dumps([slot(tools, n) for n in range(1, table(tools)[1][0] // 8)]))
""")
        equal(answers, [NOT_SUPPORTED] * 66)


def test_no_topology():
    """A driver that has no places of SMs."""
    with mps.Service({"SOFTGPU_SMS": "1"}) as service:
        equal(ask(service, """
must("cuInit", 0)
context, gpcs, numbers = (ctypes.c_void_p() for _ in range(3))
must("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
must("cuCtxSetCurrent", context)
print(slot("1734dc26800d47458726c0f1e7dd8bca", 4, ctypes.byref(gpcs), ctypes.byref(numbers)))
"""), NOT_SUPPORTED)


def test_empty_slots():
    """Unused slots of the private tables return success."""
    with mps.Service() as service:
        answers = ask(service, """
print(json.dumps([slot("6bd5fb6c5bf4e74a8987d93912fd9df9", 7, 0),
                  slot("6bd5fb6c5bf4e74a8987d93912fd9df9", 12),
                  slot("263e88607cd2614392f6bbd5006dfa7e", 3)]))
""")
        equal(answers, [0, 0, 0])


BUSES = """
must("cuInit", 0)
def attribute(which, device):
    value = ctypes.c_int()
    must("cuDeviceGetAttribute", ctypes.byref(value), which, device)
    return value.value
count = ctypes.c_int()
must("cuDeviceGetCount", ctypes.byref(count))
print(json.dumps([attribute(33, device) for device in range(count.value)]))
"""


def test_devices():
    """A client's own variables select and order the server's GPUs."""
    with mps.Service({"SOFTGPU_DEVICES": "4"}) as service:
        def buses(**env):
            return ask(service, BUSES, env=env)
        everything = buses()
        equal(len(everything), 4)
        equal(buses(CUDA_VISIBLE_DEVICES="2,0"), [everything[2], everything[0]])
        equal(buses(CUDA_VISIBLE_DEVICES="3,9,1"), [everything[3]])
        equal(buses(CUDA_DEVICE_ORDER="PCI_BUS_ID"), sorted(everything))
        equal(buses(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES="3"),
              [sorted(everything)[3]])
        for chosen, result in (("", 100), ("-1", 100), ("1,1", 101)):
            equal(ask(service, 'print(call("cuInit", 0))',
                      env={"CUDA_VISIBLE_DEVICES": chosen}), result)


FABRIC = """
context = ctypes.c_void_p()
assert not call("cuInit", 0) and not call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
assert not call("cuCtxSetCurrent", context)
handle = ctypes.c_uint64()
prop = (ctypes.c_int * 8)(1, 8, 1, 0)
print(call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(2 << 20), prop, ctypes.c_uint64(0)))
"""


def test_fabric():
    """PyTorch first requests memory for a fabric, on any machine: refused without a log line."""
    with mps.Service() as service:
        code, out, err = service.run(sys.executable, "-c", CLIENT + FABRIC)
        equal((code, out, err), (0, "801\n", ""))


def test_launch_blocking():
    """The launch itself returns the error of its kernel."""
    with mps.Service() as service:
        service.run_ok("launch_blocking", "fault")
        service.run_ok("process1")


if __name__ == "__main__":
    harness.main(globals())
