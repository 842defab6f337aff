#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 240 s
"""The metrics: the page of the command, and its listener."""

import contextlib
import os
import re
import signal
import subprocess

import exposition
import harness
import mps
import session
from harness import contains, equal, need_root, wait_for
from test_stats import MIB, WORK, stats, worked

ALICE, BOB = 12345, 12346
# METRICS_CLIENTS_MAX (daemon/metrics.h), PROCESS_SESSIONS_MAX (daemon/allowances.h).
CLIENTS_MAX, OF_A_PROCESS = 256, 16
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
    equal(families["mps_%s_busy_seconds_total" % kind].value(**labels), want["busy_ns"] / 1e9)


def test_values():
    """Clients, users, groups and GPUs have what `stats --json' says."""
    with mps.Service() as service:
        service.command("group", "create", "a.b/c-d", "-device_pinned_mem_limit", "0", "512M")
        first = worked(service)
        second = worked(service, env={"MPS_GROUP": "a.b/c-d"})
        found, families = stats(service), metrics(service)
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
                   ("server_starts", "server_failures", "gpu_faults", "quarantines",
                    "accepted_clients", "refused_clients")], [1, 0, 0, 0, 1, 0])
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
    """A program that faults twice is quarantined."""
    with mps.Service() as service:
        for _ in range(2):
            service.run_ok("fault")
            wait_for("the end of its server", lambda: not service.servers())
        equal(totals(service, "gpu_faults", "quarantines", "server_failures"), [2, 1, 0])
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


if __name__ == "__main__":
    harness.main(globals())
