#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
# mostly waits
"""What operators look at names servers and namespaces: lists, counters, traces, faults."""

import json
import os
import subprocess

import exposition
import harness
import mps
from harness import contains, equal, wait_for

NAMES = {"server_name": "pool", "group": "pool/small"}


def in_namespace(service, program, *args):
    return service.popen(program, *args, env={"CUDA_MPS_PIPE_DIRECTORY": service.pipe + "/pool/small"})


def json_of(service, *words):
    return json.loads(service.command(*words).stdout)


def names_of(row):
    return {key: row[key] for key in NAMES}


def check_lists(service, pid):
    server = int(service.command("server", "get", "pool", "pid").stdout)
    row, = json_of(service, "get_server_list", "--json")["servers"]
    equal((row["pid"], row["name"]), (server, "pool"))
    for words in ("ps", "--json"), ("ps", "-l", "--json"), ("stats", "--json"):
        row, = json_of(service, *words)["clients"]
        equal((names_of(row), row["pid"], row["server"]), (NAMES, pid, server), words)
    contains(service.command("ps", "-l").stdout, " pool/small ")
    row, = json_of(service, "top", "--json", "--once", "-d", "0.1")["clients"]
    equal((names_of(row), row["pid"]), (NAMES, pid))
    done = subprocess.run([mps.CONTROL, "top", "--once", "-d", "0.1"], capture_output=True, text=True,
                          env=dict(service.env, COLUMNS="160"), check=True)
    contains(done.stdout, " pool/small ")
    families = exposition.read(service.command("metrics").stdout)
    equal(families["mps_client_launches_total"].having(pid=str(pid), server=str(server), **NAMES) != [], True)
    equal(len(families["mps_group_launches_total"].having(group="pool/small")), 1)


def test_names():
    with mps.Service() as service:
        service.command("server", "create", "pool")
        service.command("namespace", "create", "small", "--server=pool")
        path = os.path.join(service.folder, "trace.json")
        service.command("trace", "start", path)
        process = in_namespace(service, "process1", "--seconds", "20")
        wait_for("the client", lambda: "\n%d " % process.pid in service.command("ps").stdout)
        check_lists(service, process.pid)
        service.command("client", "terminate", str(process.pid))
        service.finish(process)
        service.command("trace", "stop", path)
        with open(path, encoding="utf-8") as file:
            rows = [event["args"]["name"] for event in json.load(file)["traceEvents"]
                    if event["name"] == "process_name"]
        contains(rows[0], " (user %d, pool/small)" % os.getuid())

        process = in_namespace(service, "fault")
        service.finish(process)
        fault, = wait_for("the fault", lambda: json_of(service, "get_last_fault", "--json"))
        client, = fault["clients"]
        equal((fault["server_name"], client["group"], client["pid"]), ("pool", "pool/small", process.pid))
        text = service.command("get_last_fault").stdout
        contains(text, "Server    %d of user %d, pool\n" % (fault["server"], os.getuid()))
        contains(text, ", group pool/small\n")


if __name__ == "__main__":
    harness.main(globals())
