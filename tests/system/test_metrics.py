#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
# mostly waits
"""The metrics: the page of the command, and its listener."""

import contextlib
import ctypes
import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import tempfile
import time

import exposition
import harness
import mps
import session
from harness import contains, equal, need_root, settled, wait_for
from test_config_file import Service as FileService
from test_stats import MIB, WORK, stats, worked

ALICE, BOB = 12345, 12346
FLEET = os.path.join(harness.ROOT, "docs", "fleet")
# METRICS_CLIENTS_MAX (daemon/watch/metrics.h), PROCESS_SESSIONS_MAX (daemon/config/allowances.h).
CLIENTS_MAX, OF_A_PROCESS = 256, 16
# CONNS_OF_PEER_MAX, ALL_CONNS_MAX and CONN_MS (daemon/exporter/http.c).
CONNS_OF_PEER, CONNS, CONN_S = 12, 96, 10
# EXPORTER_DAEMON_FD (daemon/ask/exporter_start.h)
DAEMON_FD = 4
SYS_PIDFD_GETFD = 438
CANNOT = "Cannot listen on 127.0.0.1:%d for the metrics: Address already in use: set metrics_listen " \
    "to another address, or reload when this one is free\n"
# The counters of `stats --json' -> the families of the metrics, and the direction of copies.
COUNTERS = {"launches": ("launches_total", {}), "graph_launches": ("graph_launches_total", {}),
            "batches": ("launch_batches_total", {}), "fills": ("fills_total", {}),
            "waits": ("waits_total", {}), "errors": ("errors_total", {})}
COUNTERS.update({"copies_" + way: ("copies_total", {"direction": way})
                 for way in ("in", "out", "within")})
COUNTERS.update({"bytes_" + way: ("copied_bytes_total", {"direction": way})
                 for way in ("in", "out", "within")})


def metrics(service, **who):
    done = subprocess.run([mps.CONTROL, "metrics"], env=service.env, capture_output=True, text=True,
                          check=True, timeout=30 * mps.SLOW, stdin=subprocess.DEVNULL, **who)
    equal(done.stderr, "")
    return exposition.read(done.stdout)


def user(uid):
    return {"user": uid, "group": uid, "extra_groups": []}


def counters_of(families, kind, **labels):
    """The counters as `stats --json' names them."""
    return {name: families["mps_%s_%s" % (kind, family)].value(**labels, **more)
            for name, (family, more) in COUNTERS.items()}


def check_counters(families, kind, want, **labels):
    equal(counters_of(families, kind, **labels), {name: want[name] for name in COUNTERS})
    for key in "busy", "yielded":
        equal(families["mps_%s_%s_seconds_total" % (kind, key)].value(**labels),
              want[key + "_ns"] / 1e9)


def still_metrics(service):
    """`stats --json' and the metrics of the same moment: memory is given back a little later."""
    def look():
        before, families = stats(service), metrics(service)
        same = ("clients", "users", "groups")
        after = stats(service)
        return [after[name] for name in same] == [before[name] for name in same] and (before, families)
    return wait_for("counters that stand still", look)


def test_values():
    """Clients, users, groups and GPUs have what `stats --json' says."""
    with mps.Service() as service:
        service.command("group", "create", "a.b/c-d", "-device_pinned_mem_limit", "0", "512M")
        first = worked(service)
        second = worked(service, env={"MPS_GROUP": "a.b/c-d"})
        found, families = still_metrics(service)
        for client in found["clients"]:
            labels = {"pid": str(client["pid"]), "client": str(client["client"]),
                      "uid": str(client["uid"]), "group": client["group"] or "",
                      "server": str(client["server"])}
            check_counters(families, "client", client, **labels)
            gpu, = client["gpus"]
            labels["gpu"] = gpu["uuid"]
            equal(families["mps_client_memory_bytes"].value(**labels), gpu["memory"])
            equal(families["mps_client_memory_peak_bytes"].value(**labels), gpu["memory_peak"])
            equal(families["mps_client_sms"].value(**labels), gpu["sms"])
            limits = families["mps_client_memory_limit_bytes"].having(**labels)
            equal([value for _, value in limits],
                  [gpu["memory_limit"]] if client["group"] else [], limits)
        check_counters(families, "user", found["users"][0], uid=str(os.getuid()))
        check_counters(families, "group", found["groups"][0], group="a.b/c-d")
        gpu = found["clients"][0]["gpus"][0]
        equal(families["mps_gpu_sms"].value(gpu=gpu["uuid"]), gpu["device_sms"])
        equal(families["mps_gpu_clients"].value(), 2)
        equal(families["mps_gpu_clients_memory_bytes"].value(gpu=gpu["uuid"]),
              sum(client["gpus"][0]["memory"] for client in found["clients"]))
        assert families["mps_gpu_memory_bytes"].value() >= 256 * MIB
        equal(families["mps_gpu_info"].value(name="Software GPU", gpu=gpu["uuid"]), 1)
        equal({client["pid"] for client in found["clients"]}, {first.pid, second.pid})


def test_daemon():
    """The daemon, its servers, and what it has counted for all users and for one."""
    with mps.Service() as service:
        families = metrics(service)
        equal(families["mps_build_info"].value(), 1)
        (labels, _), = families["mps_build_info"].having()
        equal(set(labels), {"version", "protocol", "spec"})
        assert re.match(r"[0-9a-f]{16}\Z", labels["spec"]), labels
        equal(families["mps_server_starts_total"].value(), 0)
        equal(families["mps_servers"].value(state="active"), 0)
        process = worked(service)
        families = metrics(service)
        assert 0 < families["mps_daemon_uptime_seconds"].value() < 3600
        age_s = os.stat(service.pipe).st_mtime - families["mps_daemon_start_time_seconds"].value()
        assert abs(age_s) < 600, age_s
        for kind, labels in (("mps", {}), ("mps_user", {"uid": str(os.getuid())})):
            equal([families["%s_%s_total" % (kind, name)].value(**labels) for name in
                   ("server_starts", "server_failures", "gpu_faults", "probations", "quarantines",
                    "accepted_clients", "refused_clients")], [1, 0, 0, 0, 0, 1, 0])
        equal(families["mps_servers"].value(state="active"), 1)
        equal(families["mps_clients"].value(), 1)
        equal(families["mps_waiting_clients"].value(), 0)
        process.kill()


def totals(service, *names):
    families = metrics(service)
    return [families["mps_%s_total" % name].value() for name in names]


def test_failures_and_refusals():
    """A server that dies, and a client that is refused."""
    with mps.Service() as service:
        service.run_ok("process1")
        server = service.server()
        os.kill(server, 9)
        wait_for("its end", lambda: server not in service.servers())
        code, _, _ = service.run("process1", env={"MPS_GROUP": "missing"})
        assert code != 0, "a group that does not exist"
        equal(totals(service, "server_starts", "server_failures", "gpu_faults", "refused_clients"),
              [1, 1, 0, 1])
        service.run_ok("process1")
        equal(totals(service, "server_starts", "server_failures"), [2, 1])


def test_faults():
    """A program that faults is on probation; after the second fault it is quarantined."""
    with mps.Service() as service:
        for _ in range(2):
            service.run_ok("fault")
            wait_for("the end of its server", lambda: not service.servers())
        equal(totals(service, "gpu_faults", "probations", "quarantines", "server_failures"),
              [2, 1, 1, 0])
        uid = str(os.getuid())
        families = metrics(service)
        equal([families["mps_user_%s_total" % name].value(uid=uid)
               for name in ("gpu_faults", "quarantines")], [2, 1])


def test_sums_rise():
    """The sums of users and groups keep what ended clients have done, longer than the tenant."""
    with mps.Service({"MPS_IDLE_S": "1"}) as service:
        service.command("group", "create", "g")
        process = worked(service, env={"MPS_GROUP": "g"})
        process.kill()
        process.wait()
        wait_for("its end", lambda: not stats(service)["clients"])
        # The user's last connections end; the server was idle for too long.
        wait_for("the end of the server", lambda: not service.servers())
        worked(service)
        wait_for("both", lambda: metrics(service)["mps_clients"].value() == 1)
        families = metrics(service)
        user_sums = counters_of(families, "user", uid=str(os.getuid()))
        equal({name: user_sums[name] for name in WORK}, {name: 2 * n for name, n in WORK.items()})
        group_sums = counters_of(families, "group", group="g")
        equal({name: group_sums[name] for name in WORK}, WORK)
        equal(families["mps_client_launches_total"].value(), WORK["launches"])


def test_sums_of_a_forgotten_tenant():
    """A daemon of root frees what it knows of a user without connections, but not the sums."""
    need_root()
    with mps.Service({"MPS_IDLE_S": "1"}) as service:
        process = worked(service, **user(ALICE))
        process.kill()
        process.wait()
        wait_for("the end of the server", lambda: not service.servers())
        wait_for("the tenant to be freed", lambda: str(ALICE) not in
                 {str(one["uid"]) for one in stats(service)["users"]}, 60 * mps.SLOW)
        families = metrics(service)
        equal(families["mps_user_launches_total"].value(uid=str(ALICE)), WORK["launches"])


@contextlib.contextmanager
def many_sessions(service, n):
    """Clients without work, in processes with as many as one may have."""
    read_end, write_end = os.pipe()
    children = []
    for first in range(0, n, OF_A_PROCESS):
        child = os.fork()
        if child == 0:
            try:
                kept = [session.Client(service) for _ in range(min(OF_A_PROCESS, n - first))]
                os.write(write_end, b"x" * len(kept))
                signal.pause()
            finally:
                os._exit(0)
        children.append(child)
    os.close(write_end)
    try:
        served = 0
        while served < n:
            more = os.read(read_end, n)
            assert more, "only %d of %d sessions" % (served, n)
            served += len(more)
        yield
    finally:
        os.close(read_end)
        for child in children:
            os.kill(child, 9)
            os.waitpid(child, 0)


def test_client_bound():
    """More clients than may have series are in the sums only."""
    n = CLIENTS_MAX + OF_A_PROCESS
    with mps.Service() as service, many_sessions(service, n):
        families = metrics(service)
        equal(len(families["mps_client_launches_total"].samples), CLIENTS_MAX)
        equal(families["mps_clients"].value(), n)
        equal(families["mps_clients_without_series"].value(), n - CLIENTS_MAX)
        equal(families["mps_accepted_clients_total"].value(), n)


def test_users_see_their_own():
    """Root sees all; another user sees the own clients and sums, and no sums of all users."""
    need_root()
    with mps.Service() as service:
        worked(service, **user(ALICE))
        families = metrics(service, **user(BOB))
        equal(families["mps_client_launches_total"].samples, {})
        equal(families["mps_clients"].value(), 0)
        equal(families["mps_server_store_limit_bytes"].samples, {})
        equal(families["mps_user_launches_total"].having(uid=str(ALICE)), [])
        for name in ("mps_servers", "mps_server_starts_total", "mps_group_launches_total"):
            assert name not in families, name
        families = metrics(service, **user(ALICE))
        equal(families["mps_client_launches_total"].value(uid=str(ALICE)), WORK["launches"])
        equal([labels for labels, _ in families["mps_user_launches_total"].having()],
              [{"uid": str(ALICE)}])
        equal(metrics(service)["mps_user_launches_total"].value(uid=str(ALICE)), WORK["launches"])


def test_arguments():
    with mps.Service() as service:
        done = service.command("metrics", "--json", check=False)
        contains(done.stderr, "Usage: metrics")


# ---- over HTTP

def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def request(port, path="/metrics", method="GET", body=None, host="127.0.0.1", timeout=20 * mps.SLOW):
    """(status, headers, text)"""
    conn = http.client.HTTPConnection(host, port, timeout=timeout)
    with contextlib.closing(conn):
        conn.request(method, path, body=body)
        response = conn.getresponse()
        return response.status, response.headers, response.read().decode()


def scrape(port, host="127.0.0.1"):
    status, headers, text = request(port, host=host)
    equal((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
    return exposition.read(text)


def refuses(port, host="127.0.0.1"):
    with socket.socket() as sock:
        return sock.connect_ex((host, port)) != 0


def test_off_by_default():
    with mps.Service() as service:
        assert "metrics" not in service.control_log()
        inodes = {name[len("socket:["):-1] for name in mps.open_files(service.daemon_pid())
                  if name.startswith("socket:[")}
        for path in ("/proc/net/tcp", "/proc/net/tcp6"):
            with contextlib.suppress(FileNotFoundError), open(path, encoding="ascii") as file:
                for line in file.read().splitlines()[1:]:
                    assert line.split()[9] not in inodes, line


def test_http():
    """The page is that of the command for root, without the names of programs."""
    port = free_port()
    with mps.Service(options=["-m", str(port)]) as service:
        contains(service.control_log(),
                 "The metrics can be read at http://127.0.0.1:%d/metrics\n" % port)
        equal(scrape(port)["mps_clients"].value(), 0)
        process = worked(service)
        wait_for("fresh counters", lambda: scrape(port)["mps_clients"].value() == 1, 5 * mps.SLOW)
        families, found = scrape(port), stats(service)["clients"][0]
        check_counters(families, "client", found, pid=str(process.pid))
        equal(set(families), set(metrics(service)))
        assert "counted" not in request(port)[2], "the name of a program"
        # Only there, not on other addresses of this machine.
        assert refuses(port, "127.0.0.2")


def test_http_errors():
    port = free_port()
    with mps.Service(options=["--metrics", "127.0.0.1:%d" % port]):
        for path in ("/", "/metrics/", "/metrics2", "/../metrics", "//metrics"):
            equal(request(port, path)[0], 404, path)
        for method in ("HEAD", "POST", "PUT", "DELETE", "OPTIONS", "BREW"):
            status, headers, _ = request(port, method=method)
            equal((status, headers["Allow"]), (405, "GET"), method)
        equal(request(port, method="POST", body=b"x" * 1000)[0], 405)
        equal(request(port, body=b"x" * 100000)[0], 200)
        equal(request(port, "/metrics?name[]=x")[0], 200)


def exchange(port, words, patience_s=20 * mps.SLOW):
    """What the daemon replies to these bytes before it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=patience_s) as sock:
        text = b""
        with contextlib.suppress(ConnectionError):
            sock.sendall(words)
            while more := sock.recv(65536):
                text += more
        return text


def test_malformed_requests():
    """Each is refused or dropped, and the next one is answered."""
    port = free_port()
    dice = harness.dice()
    right = b"GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n"
    with mps.Service(options=["-m", str(port)]) as service:
        assert exchange(port, right).startswith(b"HTTP/1.1 200 OK\r\n")
        for words in (b"GET /metrics HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100000 + b"\r\n\r\n",
                      b"GET /" + b"x" * 100000, b"\0" * 1000 + b"\r\n\r\n", b"\r\n" * 1000 + b"\r\n",
                      b"GET /metrics HTTP/9.9\r\n\r\n",
                      b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
                      b"GET /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
            assert not exchange(port, words).startswith(b"HTTP/1.1 200"), words[:80]
        for _ in range(60):
            words = bytearray(right)
            for _ in range(dice.randint(1, 4)):
                words[dice.randrange(len(words))] = dice.randrange(256)
            with socket.create_connection(("127.0.0.1", port)) as sock:
                sock.sendall(words)
                sock.shutdown(socket.SHUT_WR)
        equal(scrape(port)["mps_clients"].value(), 0)
        equal(service.command("get_server_list").stdout, "")


def exporter(service):
    """The PID of the program that answers."""
    daemon = service.daemon_pid()
    found = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
             if mps.parent_of(pid) == daemon and "mps-exporter" in mps.command_line(pid)]
    return found[0] if found else None


def descriptors(service):
    return len(mps.open_files(exporter(service)))


def test_slow_peers():
    """Peers that send and read nothing hold up neither commands nor scrapes."""
    port = free_port()
    with mps.Service(options=["-m", str(port)]) as service, contextlib.ExitStack() as stack:
        worked(service)
        scrape(port)
        before = settled(lambda: descriptors(service))
        socks = []
        for i in range(4 * CONNS):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            # Some have sent a part of a request, some a whole one that they do not read.
            with contextlib.suppress(ConnectionError):
                sock.sendall((b"", b"GET /met", b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")[i % 3])
            socks.append(sock)
            if i % 16 == 0:
                equal(len(stats(service)["clients"]), 1)
                equal(scrape(port)["mps_clients"].value(), 1)
        equal(scrape(port)["mps_clients"].value(), 1)
        assert descriptors(service) <= before + CONNS, (before, descriptors(service))
        # The oldest ones gave way.
        with contextlib.suppress(ConnectionError):
            socks[0].settimeout(20 * mps.SLOW)
            equal(socks[0].recv(1), b"")


def flood(port, until):
    """Connections that send a whole request or a part of it, more than a peer may have."""
    socks = []
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            sock = socket.create_connection(("127.0.0.1", port), 5)
            socks.append(sock)
            sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" if len(socks) % 2 else b"GET")
        if len(socks) > 40:
            socks.pop(0).close()
        time.sleep(0.01)


def start_flood(uid, port, until):
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            flood(port, until)
        finally:
            os._exit(0)
    return child


def test_peer_with_many_connections():
    """A user whose connections come faster than a page is made takes no place from others."""
    need_root()
    port = free_port()
    with mps.Service(options=["-m", str(port)]) as service:
        worked(service)
        server = service.server()
        os.kill(server, signal.SIGSTOP)
        # Now a scrape takes a second.
        until = time.monotonic() + 4 * mps.SLOW
        child, n = start_flood(BOB, port, until), 0
        while time.monotonic() < until:
            scrape(port)
            n += 1
        os.waitpid(child, 0)
        os.kill(server, signal.SIGCONT)
        assert n >= 2, n


def test_connections_that_ended_early():
    """Connections that users end before they are accepted are not root's."""
    need_root()
    port = free_port()
    with mps.Service(options=["-m", str(port)]) as service:
        with socket.create_connection(("127.0.0.1", port), 5) as ours:
            ours.sendall(b"GET /metrics HTTP/1.1\r\n")
            scrape(port)  # it has accepted both
            pid = exporter(service)
            os.kill(pid, signal.SIGSTOP)
            for _ in range(40):
                with socket.create_connection(("127.0.0.1", port), 5) as sock:
                    sock.sendall(b"GET")
            os.kill(pid, signal.SIGCONT)
            scrape(port)
            ours.sendall(b"Host: x\r\n\r\n")
            ours.settimeout(20 * mps.SLOW)
            answer = ours.recv(12)
        equal(answer, b"HTTP/1.1 200")


def test_deadline():
    """A peer that sends a byte now and then is closed, too."""
    port = free_port()
    with mps.Service(options=["-m", str(port)]) as service:
        scrape(port)  # the program has started when it answers
        before = settled(lambda: descriptors(service))
        with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
            began = time.monotonic()
            with contextlib.suppress(ConnectionError):
                sock.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
                while time.monotonic() - began < (CONN_S + 20) * mps.SLOW:
                    sock.sendall(b"x")
                    time.sleep(0.2)
        took = time.monotonic() - began
        assert took < (CONN_S + 15) * mps.SLOW, took
        wait_for("its descriptor to be closed", lambda: descriptors(service) == before)


def sleeps(pid):
    """How often the main thread of the process has waited for something."""
    with open("/proc/%d/status" % pid, encoding="utf-8") as file:
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", file.read(), re.M).group(1))


def test_out_of_descriptors():
    """The exporter does not run without a pause because of a connection that it cannot accept."""
    port = free_port()
    with mps.Service(options=["-m", str(port)]) as service:
        scrape(port)
        pid = exporter(service)
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = max(int(name) for name in os.listdir("/proc/%d/fd" % pid)) + 1
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, hard))
        with socket.create_connection(("127.0.0.1", port), timeout=20 * mps.SLOW) as sock:
            sock.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            before = sleeps(pid)
            wait_for("it to sleep", lambda: sleeps(pid) > before + 10)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
            contains(sock.recv(4096).decode(), "200 OK")
        equal(scrape(port)["mps_clients"].value(), 0)


def test_stopped_server():
    """A scrape waits for a server for a second at most, and then shows what the server last said."""
    port = free_port()
    with mps.Service(options=["-m", str(port)]) as service:
        process = worked(service)
        wait_for("its counters", lambda: scrape(port)["mps_client_launches_total"].having(
            pid=str(process.pid)))
        time.sleep(1)
        os.kill(service.server(), signal.SIGSTOP)
        try:
            began = time.monotonic()
            equal(scrape(port)["mps_client_launches_total"].value(), WORK["launches"])
            took = time.monotonic() - began
            assert took < 1 + 4 * mps.SLOW, took
            # Commands of others are answered meanwhile.
            service.command("get_server_list")
        finally:
            os.kill(service.server(), signal.SIGCONT)


def test_end_beside_requests():
    """The daemon ends while scrapes wait for a server that does not reply."""
    port = free_port()
    with mps.Service(options=["-m", str(port)]) as service, contextlib.ExitStack() as stack:
        process = worked(service)
        server = service.server()
        os.kill(server, signal.SIGSTOP)
        for _ in range(5):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        process.kill()
        os.kill(server, signal.SIGKILL)
        service.command("quit", "-t", "0", timeout=40)
        equal(service.daemon.wait(30 * mps.SLOW), 0)


# ---- the program that answers

def take_connection(pid):
    """The exporter's connection to the daemon."""
    process = os.pidfd_open(pid)
    fd = ctypes.CDLL(None).syscall(SYS_PIDFD_GETFD, process, DAEMON_FD, 0)
    os.close(process)
    assert fd >= 0
    return socket.socket(fileno=fd)


def hidden(path, by):
    """A launcher of programs for which a file has another content."""
    need_root()
    launcher = [mps.need_program("unshare"), "--mount", "sh", "-c",
                "mount --bind %s %s && exec \"$@\"" % (by, path), "sh"]
    if subprocess.run([*launcher, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        raise harness.Skip("no mounts")
    return launcher


def test_user():
    """Where there is a user `mps', the program is that user, without groups and new rights."""
    port = free_port()
    with tempfile.NamedTemporaryFile("w") as passwd:
        with open("/etc/passwd", encoding="utf-8") as file:
            passwd.write("".join(line for line in file if not line.startswith("mps:")))
        passwd.write("mps:x:12399:12398::/:/bin/false\n")
        passwd.flush()
        with mps.Service(options=["-m", str(port)], launcher=hidden("/etc/passwd", passwd.name)) as service:
            scrape(port)
            pid = exporter(service)
            equal([mps.status_of(pid, key).split() for key in ("Uid", "Gid", "NoNewPrivs")],
                  [["12399"] * 4, ["12398"] * 4, ["1"]])
            with open("/proc/%d/status" % pid, encoding="utf-8") as file:
                assert re.search(r"^Groups:\s*$", file.read(), re.M)
            equal(int(mps.status_of(pid, "CapEff"), 16), 0)


def test_missing_library():
    """The daemon says so once where the user sees it, and works without a listener."""
    port = free_port()
    listed = subprocess.run(["ldd", mps.BUILD + "/bin/mps-exporter"], capture_output=True, text=True, check=True)
    library = re.search(r"libmicrohttpd\S* => (\S+)", listed.stdout)[1]
    launcher = hidden(os.path.realpath(library), "/dev/null")
    with mps.Service(options=["-m", str(port)], launcher=launcher) as service:
        why = "Cannot listen on 127.0.0.1:%d for the metrics: libmicrohttpd.so.12 is missing: " % port
        wait_for("the reason", lambda: why in service.control_log())
        contains(service.read("daemon.out"), "mps-control: " + why)
        assert refuses(port)
        time.sleep(2)
        equal((exporter(service), service.control_log().count(why)), (None, 1))
        service.run_ok("process1")
        config = service.folder + "/mps.conf"
        with open(config, "w", encoding="utf-8") as file:
            file.write("[daemon]\nmetrics_listen = %d\n" % port)
        done = subprocess.run([*launcher, mps.CONTROL, "check-config", config], capture_output=True, text=True,
                              check=True)
        equal(done.stdout, config + ": no errors\n")
        contains(done.stderr, "mps-control: libmicrohttpd.so.12 is missing: install libmicrohttpd12\n")


def test_hanging_exporter():
    """A check of the configuration does not wait for a program that does not end."""
    with tempfile.TemporaryDirectory() as folder:
        config, program = folder + "/mps.conf", folder + "/hangs"
        with open(config, "w", encoding="utf-8") as file:
            file.write("[daemon]\nmetrics_listen = %d\n" % free_port())
        with open(program, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexec sleep 300\n")
        os.chmod(program, 0o755)
        launcher = hidden(os.path.realpath(mps.BUILD + "/bin/mps-exporter"), program)
        done = subprocess.run([*launcher, mps.CONTROL, "check-config", config], capture_output=True, text=True,
                              check=True, timeout=20 * mps.SLOW)
        equal((done.stdout, done.stderr), (config + ": no errors\n", ""))


def test_rights():
    """Its connection is for the page alone: another command, or a frame, ends the connection."""
    need_root()
    port = free_port()
    with mps.Service(options=["-m", str(port)]) as service:
        scrape(port)
        lines = service.control_log().count("\n")
        scrape(port)
        equal(service.control_log().count("\n"), lines, "scrapes leave no line in the log")
        for words in b"quit\n", b"\0" * 64, b"metrics --json\n":
            pid = exporter(service)
            with take_connection(pid) as sock:
                sock.send(words)
            wait_for("another one", lambda pid=pid: exporter(service) not in (None, pid), 20 * mps.SLOW)
            scrape(port)
        equal(service.daemon.poll(), None)


def test_restart():
    """It is started again, and ends with the daemon, also with one that is killed."""
    port = free_port()
    with mps.Service(options=["-m", str(port)]) as service:
        scrape(port)
        pid = exporter(service)
        os.kill(pid, signal.SIGKILL)
        # The address stays taken: who connects waits.
        assert "mps_clients" in scrape(port)
        contains(service.control_log(), "mps-exporter %d was ended by signal 9: starting it again" % pid)
        pid = exporter(service)
        service.daemon.kill()
        service.daemon.wait()
        wait_for("its end", lambda: not os.path.exists("/proc/%d" % pid) or not mps.is_alive(pid))
        wait_for("the end of the listener", lambda: refuses(port))
        service.start()
        assert "mps_clients" in scrape(port)
        pid = exporter(service)
        service.command("quit")
        service.daemon.wait()
        assert not os.path.exists("/proc/%d" % pid)


# ---- the address

def test_variable_and_ipv6():
    port = free_port()
    service = mps.Service()
    service.daemon_env["MPS_METRICS_LISTEN"] = "[::1]:%d" % port
    with socket.socket(socket.AF_INET6) as sock:
        try:
            sock.bind(("::1", 0))
        except OSError:
            raise harness.Skip("no IPv6") from None
    with service:
        assert "mps_clients" in scrape(port, "::1")
        assert refuses(port)


def test_reload():
    """The address changes with the file; connections to the old one end."""
    first, second = free_port(), free_port()
    with FileService("[daemon]\nmetrics_listen = %d\n" % first) as service:
        assert "mps_clients" in scrape(first)
        with socket.create_connection(("127.0.0.1", first), timeout=20 * mps.SLOW) as sock:
            equal(service.reload("[daemon]\nmetrics_listen = 127.0.0.1:%d\n" % second),
                  "metrics_listen: 127.0.0.1:%d (was %d)\n" % (second, first))
            with contextlib.suppress(ConnectionError):
                equal(sock.recv(1), b"")
        assert "mps_clients" in scrape(second)
        assert refuses(first)
        equal(service.reload(), "")
        assert "mps_clients" in scrape(second)
        equal(service.reload(""), "metrics_listen: off (was 127.0.0.1:%d)\n" % second)
        assert refuses(second)
        service.write("[daemon]\nmetrics_listen = localhost:1\n")
        done = service.command("check-config", service.path, check=False)
        contains(done.stderr, "it takes off, a PORT, or ADDRESS:PORT")


def test_option_counts():
    """-m counts instead of the file; a reload says so."""
    port, other = free_port(), free_port()
    with FileService("", options=["-m", str(port)]) as service:
        said = service.reload("[daemon]\nmetrics_listen = %d\n" % other)
        contains(said, "line 2: metrics_listen has no effect, as the daemon was started with -m %d\n"
                 % port)
        assert "mps_clients" in scrape(port)
        assert refuses(other)
    with FileService("[daemon]\nmetrics_listen = %d\n" % port, options=["-m", "off"]) as service:
        assert refuses(port)


def test_taken_port():
    """The daemon works without the listener, says why, and listens after a reload."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with FileService("[daemon]\nmetrics_listen = %d\n" % port) as service:
            contains(service.control_log(), CANNOT % port)
            contains(service.read("daemon.out"), "mps-control: " + CANNOT % port)
            service.run_ok("process1")
            equal(service.reload(), CANNOT % port)
            taken.close()
            equal(service.reload(), "")
            assert "mps_clients" in scrape(port)


def test_options():
    for words, why in ((("-d", "-m", "x"), '-m is "x": it takes off, a PORT, or ADDRESS:PORT'),
                       (("-m", "9400", "ps"), "-M, -S, -m and --software apply to the daemon")):
        done = subprocess.run([mps.CONTROL, *words], env=mps.clean_environment(), text=True,
                              capture_output=True, check=False, timeout=30 * mps.SLOW)
        equal(done.returncode, 1)
        contains(done.stderr, why)


# ---- what refers to the metrics

def dashboard_queries():
    with open(FLEET + "/dashboard.json", encoding="utf-8") as file:
        dashboard = json.load(file)
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_dashboard():
    """Each panel has an ID and a place of its own, and its queries use the machines that are chosen."""
    with open(FLEET + "/dashboard.json", encoding="utf-8") as file:
        dashboard = json.load(file)
    panels = dashboard["panels"]
    equal(len({panel["id"] for panel in panels}), len(panels))
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                 for y in range(place["y"], place["y"] + place["h"])}
        assert not cells & taken and place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells
        assert panel["title"] and panel["description"], panel
        for target in panel["targets"]:
            contains(target["expr"], 'instance=~"$instance"')
    equal([variable["name"] for variable in dashboard["templating"]["list"]],
          ["datasource", "instance"])


def test_names():
    """Dashboard, alerts and documentation name what the daemon exports, the latter all of it."""
    with mps.Service() as service:
        names = set(metrics(service))
    used = set(re.findall(r"\bmps_[a-z_]+", " ".join(dashboard_queries())))
    assert used and used <= names, used - names
    for name in ("alerts.yml", "alerts_test.yml"):
        with open("%s/%s" % (FLEET, name), encoding="utf-8") as file:
            used = set(re.findall(r"\bmps_[a-z_]+", file.read()))
        assert used and used <= names, (name, used - names)
    with open(harness.ROOT + "/docs/looking.md", encoding="utf-8") as file:
        rows = re.findall(r"^\| (`mps_.*?) \|", file.read(), re.M)
    documented = set()
    for row in rows:
        for name in re.findall(r"`(mps_[a-zA-Z_]+)`", row):
            documented |= {name.replace("_KIND_", "_%s_" % kind) for kind in ("client", "user", "group")}
    equal(documented, names)


if __name__ == "__main__":
    harness.main(globals())
