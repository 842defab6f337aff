#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""The client library in a program: how it chooses, what it prints, what it leaves alone."""

import json
import os
import re
import socket
import struct
import tempfile
import threading

import harness
import mps
from harness import Skip, contains, equal, need_root, wait_for

FRAME_REFUSED = 2
FRAME_TEXT_MAX = 256


def test_no_gpu_in_the_client():
    """A client has neither a device file nor the real libcuda open."""
    with mps.Service() as service:
        process = service.popen("process1", "--seconds", "4")
        wait_for("the client", lambda: service.clients() == [process.pid])
        files = mps.open_files(process.pid)
        assert not [f for f in files if f.startswith("/dev/nvidia")], files
        with open("/proc/%d/maps" % process.pid, encoding="utf-8") as file:
            maps = file.read()
        assert "softgpu" not in maps, maps
        contains(maps, "libmpsclient.so")
        equal(service.finish(process)[0], 0)


def test_library_path():
    """LD_LIBRARY_PATH has the same effect as LD_PRELOAD."""
    with mps.Service() as service:
        env = {"LD_LIBRARY_PATH": os.path.dirname(mps.LIBRARY)}
        if mps.sanitizer_preload():
            env["LD_PRELOAD"] = ":".join(mps.sanitizer_preload())
        process = service.popen("process1", "--seconds", "4", preload=False, env=env)
        wait_for("the client", lambda: service.clients() == [process.pid])
        equal(service.finish(process)[:2], (0, "process1: ok\n"))
        service.run_ok("driver", preload=False, env=env)


def test_run_script():
    with mps.Service() as service:
        if mps.sanitizer_preload():
            raise Skip("a sanitized library needs its runtime before it")
        run = os.path.join(mps.BUILD, "bin", "mps-run")
        process = service.popen(run, mps.program("process1"), "--seconds", "4", preload=False)
        wait_for("the client", lambda: service.clients() == [process.pid])
        equal(service.finish(process)[:2], (0, "process1: ok\n"))


def test_pass_through():
    """Without a daemon, the program runs on the real driver, with one warning."""
    service = mps.Service()
    try:
        out, err = service.run_ok("process1")
        equal(out, "process1: ok\n")
        equal(len(err.splitlines()), 1, err)
        contains(err, service.pipe)
        env = {"CUDA_MPS_PIPE_DIRECTORY": None, "TMPDIR": service.folder}
        if not os.path.exists("/tmp/nvidia-mps"):
            equal(service.run_ok("matmul", env=env), ("matmul: ok\n", ""))
    finally:
        service.end_everything()


def test_require():
    service = mps.Service()
    try:
        code, out, err = service.run("process1", env={"MPS_CLIENT_REQUIRE": "1"})
        equal(code, 1, out)
        contains(out, "(805)")
        contains(err, service.pipe)
    finally:
        service.end_everything()


def test_directory_below_a_daemon():
    """A directory that is missing below a daemon's is an error; below no daemon, it is a native run."""
    with mps.Service() as service:
        for below in "/one", "/one/two":
            code, out, err = service.run("process1", env={"CUDA_MPS_PIPE_DIRECTORY": service.pipe + below})
            equal(code, 1, out + err)
            contains(out, "(805)")
            contains(err, "no server and no namespace at %s%s/control" % (service.pipe, below))
            contains(err, "a control daemon at %s/control" % service.pipe)
        service.run_ok("process1", env={"CUDA_MPS_PIPE_DIRECTORY": service.pipe + "/one/two/three"})
        service.run_ok("process1", env={"CUDA_MPS_PIPE_DIRECTORY": service.folder + "/other"})


class Refuser:
    """Listens like a daemon and refuses every client, with a text."""

    def __init__(self, folder, result, text):
        os.makedirs(folder, exist_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(os.path.join(folder, "control"))
        self.socket.listen(8)
        self.answer = struct.pack("=BBHIII%ds" % FRAME_TEXT_MAX, 0, FRAME_REFUSED, 0,
                                  16 + FRAME_TEXT_MAX, result, 0, text.encode())
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            with peer:
                peer.settimeout(20)
                peer.recv(65536)
                peer.sendall(self.answer)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def test_refused():
    """A refusal is an error with the daemon's text, never a native run."""
    service = mps.Service()
    refuser = Refuser(service.pipe, 805, "restart the daemon: it is of another version")
    try:
        code, out, err = service.run("process1")
        equal(code, 1, out)
        contains(out, "(805)")
        contains(err, "restart the daemon: it is of another version")
    finally:
        refuser.close()
        service.end_everything()


def test_other_version():
    """The real daemon and a client of another version: the message names both."""
    with mps.Service() as service:
        size = 8 + 16 + 5 * FRAME_TEXT_MAX
        hello = struct.pack("=BBHIIIQ", 0, 1, 0, size, 99, 0, 0x1234).ljust(size, b"\0")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.settimeout(20)
            peer.connect(os.path.join(service.pipe, "control"))
            peer.sendall(hello)
            answer = b""
            # The whole reply: unread bytes of the HELLO may make the daemon reset the connection.
            try:
                while part := peer.recv(4096):
                    answer += part
            except ConnectionResetError:
                pass
        equal(answer[:2], b"\0\x02")
        contains(answer[16:].decode(), "99")
        service.run_ok("process1")


def test_log():
    with tempfile.TemporaryDirectory() as folder, mps.Service() as service:
        path = os.path.join(folder, "client.log")
        equal(service.run_ok("process1", env={"MPS_CLIENT_LOG": "debug," + path})[1], "")
        with open(path, encoding="utf-8") as file:
            contains(file.read(), str(service.server()))
        equal(service.run_ok("process1")[1], "")
        assert service.run_ok("process1", env={"MPS_CLIENT_LOG": "debug"})[1]


def test_log_file():
    """CUDA_LOG_FILE gets the driver's messages about failed calls."""
    shape = re.compile(r"^\[\d\d:\d\d:\d\d\.\d{3}\]\[\d+\]\[CUDA\]\[E\] ")
    words = "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemsetD32Async"
    with tempfile.TemporaryDirectory() as folder, mps.Service() as service:
        path = os.path.join(folder, "cuda.log")
        equal(service.run_ok("capture_errors", env={"CUDA_LOG_FILE": path})[1], "")
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        for line in lines:
            assert shape.match(line), line
        assert [line for line in lines if line.endswith(words)], lines
        contains(service.run_ok("capture_errors", env={"CUDA_LOG_FILE": "stderr"})[1], words)
        # A log file that cannot be opened does not prevent the use of the GPU.
        equal(service.run_ok("capture_errors", env={"CUDA_LOG_FILE": folder})[1], "")


def test_trace():
    with tempfile.TemporaryDirectory() as folder, mps.Service() as service:
        process = service.popen("process1", env={"MPS_CLIENT_TRACE": folder + "/trace.%p"})
        equal(service.finish(process)[0], 0)
        with open("%s/trace.%d" % (folder, process.pid), encoding="utf-8") as file:
            lines = file.read().splitlines()
        shape = re.compile(r"^\d+\.\d+ +\d+ +cu\w+\(.*\) = \w+ \d+(\.\d+)?$")
        for line in lines:
            assert shape.match(line), line
        for call in ("cuInit", "cuLaunchKernel", "cuMemcpyDtoH", "cuMemFree"):
            assert [line for line in lines if call in line], "no %s in the trace" % call


def test_trace_for_viewers():
    """Two programs write events of one clock into one file, which a viewer's parser accepts."""
    with tempfile.TemporaryDirectory() as folder, mps.Service() as service:
        path = folder + "/trace.json"
        both = [service.popen(name, env={"MPS_CLIENT_TRACE": path})
                for name in ("threads", "graph_capture")]
        for process in both:
            equal(service.finish(process)[0], 0)
        with open(path, encoding="ascii") as file:
            text = file.read()
        assert text.endswith("},\n"), text[-200:]
        events = json.loads(text[:-2] + "]")
        equal({event["pid"] for event in events}, {process.pid for process in both})
        for event in events:
            equal(event["ph"], "X")
            assert event["ts"] > 0 and event["dur"] >= 0, event
            contains(event["args"]["result"], "CUDA_")
        names = {event["name"] for event in events}
        assert {"cuInit", "cuLaunchKernel", "cuGraphLaunch"} <= names, names
        first = min(event["ts"] for event in events)
        assert max(event["ts"] for event in events) - first < 120e6, "clocks differ"


def test_green_contexts_that_end():
    with mps.Service() as service:
        service.run_ok("green_ends")


def test_fork_and_exec():
    with mps.Service() as service:
        service.run_ok("forker")
        out, _ = service.run_ok("forker", mps.program("process2"))
        equal(out, "process2: ok\nforker: ok\n")


def test_two_users():
    need_root()
    with mps.Service() as service:
        os.chmod(service.folder, 0o777)
        other = {"user": 12345, "group": 12345, "extra_groups": []}
        mine = service.popen("process1", "--seconds", "5")
        theirs = service.popen("process2", "--seconds", "5", **other)

        def owners_now():
            return {os.stat("/proc/%d" % pid).st_uid: pid for pid in service.servers()}
        # A server is listed a moment before it changes to its user.
        wait_for("two servers of two users", lambda: set(owners_now()) == {0, 12345})
        owners = owners_now()
        with open("/proc/%d/status" % owners[12345], encoding="utf-8") as file:
            status = file.read()
        assert re.search(r"^Uid:\s+12345\s+12345\s+12345\s+12345$", status, re.M), status
        assert re.search(r"^Gid:\s+12345\s+12345\s+12345\s+12345$", status, re.M), status
        wait_for("their client", lambda: service.clients(owners[12345]) == [theirs.pid])
        wait_for("my client", lambda: service.clients(owners[0]) == [mine.pid])
        done = service.popen(mps.CONTROL, "get_client_list", str(owners[0]), preload=False, **other)
        contains(service.finish(done)[1], "Operation not permitted")
        done = service.popen(mps.CONTROL, "get_client_list", str(owners[12345]), preload=False,
                             **other)
        equal(service.finish(done)[1], "%d\n" % theirs.pid)
        for process in (mine, theirs):
            equal(service.finish(process)[0], 0)


def test_daemon_of_a_user():
    """A daemon without root serves its own user; other users run without it, or get the reason."""
    need_root()
    with mps.Service(uid=12345) as service:
        service.run_ok("process1", user=12345, group=12345, extra_groups=[])
        other = {"user": 12346, "group": 12346, "extra_groups": []}
        out, err = service.run_ok("process1", **other)
        contains(err, "belongs to UID 12345, neither root nor UID 12346")
        contains(err, "uses the GPU without MPS")
        code, out, err = service.run("process1", env={"MPS_TRUST_UID": "12345"}, **other)
        equal(code, 1, out)
        contains(err, "serves that user only")


if __name__ == "__main__":
    harness.main(globals())
