# SPDX-License-Identifier: Apache-2.0
"""Random sequences (sequences.py) with commands of protocol 3: named servers and namespaces come and
go while clients connect in their directories.

At rest, the daemon's lists and the sockets in its directory agree. A daemon that is killed is
followed by one with the same servers, namespaces and limits.
"""

import os
import stat
import types

import operator_lines
import sequences
from harness import wait_for

SERVERS, NAMESPACES = ("pool", "b", "c_1"), ("default", "small", "x_2")
PARTITIONS = ("large", "rest")
# Columns of `namespace list': the third is the state of the server.
STATUS, DIRECTORY = 2, 6
# The state of a partition, which `sm-partition list' has.
STATE = 6


class NamedWorld(sequences.World):
    REFUSALS = sequences.REFUSALS + (
        "is of a server of UID", "has been deleted", "is deleted", "ended before it was ready")

    def __init__(self, dice):
        super().__init__(dice)
        self.owners = {}  # as far as the test knows
        self.module_commands = sorted(operator_lines.module_table().items())
        self.may_be_stale = False  # sockets of namespaces that a killed daemon has not recorded

    # ---- steps

    def step_create(self):
        """It may wait for its turn; its reply is read at rest."""
        name, uid = self.dice.choice(SERVERS), self.dice.choice(self.users)
        self.owners.setdefault(name, uid)
        words = ["server create", name]
        if not self.is_multiuser:
            words.append("--uid=%d" % self.owners[name])
        words += ["--allowed-devices=0"] * (self.dice.random() < 0.3)
        self.say_later(" ".join(words))

    def step_delete(self):
        line = "server delete " + self.dice.choice(SERVERS)
        if self.dice.random() < 0.3:
            line += " --force"
            self.harm(line)
        self.say_later(line)

    def say_later(self, line):
        self.steps.append(line)
        self.operator.leave(line)

    def step_namespace(self):
        line = "namespace %s %s --server=%s" % (
            self.dice.choice(("create", "create", "delete")), self.dice.choice(NAMESPACES),
            self.dice.choice(SERVERS + ("uid_%d" % self.dice.choice(self.users),)))
        if " delete " in line and self.dice.random() < 0.3:
            line += " --force"
            self.harm(line)
        self.ask_now(line)

    def ask_now(self, line):
        self.steps.append(line)
        self.operator.ask(line, sequences.SERVER_END_S)

    def step_partition(self):
        where = "--server=%s --device=0" % self.dice.choice(SERVERS)
        line = "sm-partition %s %s %s" % (
            self.dice.choice(("create", "create", "delete", "bind")), self.dice.choice(PARTITIONS), where)
        if " create " in line:
            line += " --chunks=%d --max-chunks=8" % self.dice.choice((1, 4))
            line += self.dice.choice(("", " --shareable=true", " --include-remainder=true"))
        if " bind " in line:
            line += " --namespace=" + self.dice.choice(NAMESPACES)
        self.ask_now(line)

    def step_module(self):
        """Commands that list, get and set."""
        name, usage = self.dice.choice(self.module_commands)
        known = {"NAME": SERVERS if name.startswith("server") else NAMESPACES, "SERVER": SERVERS,
                 "NAMESPACE": NAMESPACES}
        if name.startswith("sm-partition"):
            known["NAME"] = PARTITIONS
        self.ask_now(operator_lines.line_of(self.dice, name, usage, known))

    def step_terminate_named(self):
        client = self.some_client()
        if client:
            self.harm("client terminate %d" % client.pid)
            self.operator.ask("client terminate %d" % client.pid, sequences.SERVER_END_S)

    def place(self):
        """A directory, mostly of a namespace that exists; the name of its server, and mostly the owner."""
        name, namespace = self.dice.choice(SERVERS), self.dice.choice(NAMESPACES + ("",))
        known = [row[:2] for row in self.rows() if row[1] in SERVERS]
        if known and self.dice.random() < 0.8:
            namespace, name = self.dice.choice(known)
        uid = self.owners.get(name, 0)
        if self.is_multiuser or self.dice.random() < 0.1:
            uid = self.dice.choice(self.users)
        return os.path.join(self.service.pipe, name, namespace).rstrip("/"), name, uid

    def step_named_client(self):
        if len(self.clients) < sequences.CLIENTS_MAX:
            path, name, uid = self.place()
            self.add_client(types.SimpleNamespace(pipe=path), uid, name)

    def step_named_program(self):
        """It may find no server; it must not crash."""
        if len(self.programs) < 3:
            path, _, uid = self.place()
            program = self.dice.choice(("process1", "process2", "matmul", "events"))
            self.programs.append((self.service.popen(
                program, env={"CUDA_MPS_PIPE_DIRECTORY": path}, user=uid, group=uid, extra_groups=[]), False))
            self.steps.append("%s of %d in %s" % (program, uid, path))

    def step_kill_daemon(self):
        before = None if self.operator.waiting else self.recorded()
        self.may_be_stale = True
        super().step_kill_daemon()
        if before is not None:
            after = self.recorded()
            assert before == after, "before the daemon's death %s, after it %s" % (before, after)

    STEPS = tuple(row for row in sequences.World.STEPS if row[0] is not sequences.World.step_kill_daemon) + (
        (step_create, 15), (step_delete, 8), (step_namespace, 15), (step_module, 15), (step_partition, 8),
        (step_terminate_named, 2), (step_named_client, 40), (step_named_program, 4), (step_kill_daemon, 2))

    # ---- what holds at rest

    def rows(self):
        return [line.split(",") for line in self.operator.ask("namespace list --format=csv,noheader") or []]

    def namespaces(self):
        """Ordered by their servers, then as the list has them."""
        return sorted((row[:STATUS] + row[STATUS + 1:] for row in self.rows()), key=lambda row: row[1])

    def recorded(self):
        """What the next daemon has to know."""
        partitions = [line.split(",") for line in self.operator.ask(
            "sm-partition list --format=csv,noheader") or []]
        return (self.namespaces(), sorted(row[:STATE] + row[STATE + 1:] for row in partitions),
                self.operator.ask("feature describe"), self.operator.ask("context-share describe"))

    def further_files(self):
        return len(self.rows())

    def sockets(self):
        """The directories below the daemon's that have a socket."""
        return {folder for folder, _, names in os.walk(self.service.pipe)
                if folder != self.service.pipe and "control" in names
                and stat.S_ISSOCK(os.stat(os.path.join(folder, "control")).st_mode)}

    def directories(self):
        listed = {row[DIRECTORY] for row in self.rows()}
        return listed | {os.path.dirname(path) for path in listed if path.endswith("/default")}

    def nothing_left(self):
        super().nothing_left()
        wait_for("sockets of the listed namespaces", self.has_its_sockets, sequences.SERVER_END_S)

    def has_its_sockets(self):
        listed, found = self.directories(), self.sockets()
        return listed <= found if self.may_be_stale else listed == found
