#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 400 s
"""A server for all users, three namespaces and five containers, with soft and hard limits of namespaces or cgroups.

Each container has users, processes, mounts and IPC of its own, and only the directory of its namespace.
MPS_TEST_LONG=1: many more requests.
"""

import contextlib
import csv
import os
import subprocess
import tempfile

import card
import contained
import harness
import mps
import oversubscribed
from harness import contains, equal, need_root, wait_for
from test_cgroups import Cgroups, enter

CARD_MIB = 128
PIECE_MIB = 4
# What a client has beside its pieces, at most: blocks that are not full.
OVERHEAD_MIB = 4
ROUNDS = 400 if os.environ.get("MPS_TEST_LONG") else 30
# Soft and hard limits; the soft ones fit on the card together.
NAMESPACES = {"gold": (40, 64), "silver": (24, 48), "bronze": (12, 96)}
# Of two cgroups, and of the one above them. The namespaces have none then.
CGROUPS = {"one": (36, 72), "two": (28, 96)}
ABOVE_MIB = 112
CONTAINERS = (("gold", 0, "one"), ("gold", 1000, "two"), ("silver", 65534, "one"), ("bronze", 0, "two"),
              ("bronze", 1001, "two"))
# A client with more could not come back beside the guaranteed memory of the others.
MOST_MIB = 44


class OpenCard(card.Card):
    """One that servers of any user can open."""

    def __init__(self, mib):
        super().__init__(mib)
        self.path = tempfile.mktemp(prefix="mps-card-")
        os.close(self.fd)
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        os.chmod(self.path, 0o666)
        self.settings["SOFTGPU_CARD"] = self.path

    def __exit__(self, *error):
        super().__exit__(*error)
        os.unlink(self.path)


class Client(oversubscribed.Oversize):
    """A copy of the program `oversize' in a container."""

    def __init__(self, image, namespace, uid, group, cgroup=None):
        library = os.path.dirname(mps.for_everybody(mps.LIBRARY))
        self.service, self.group, self.mib = image.service, group, PIECE_MIB
        words = image.words("oversize", "plain", str(PIECE_MIB), str(PIECE_MIB * 1024), uid=uid, mounts=(
            "%s/pool/%s:%s" % (image.service.pipe, namespace, contained.PIPE), library + ":" + contained.LIBRARY))
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, preexec_fn=cgroup and enter(cgroup))
        self.service.started.append(self.process)
        said = self.answer()
        if said != "has":
            code, out, err = self.service.finish(self.process)
            if code == contained.REFUSED:
                raise harness.Skip("this machine allows no containers: " + err.strip())
            raise AssertionError(said + out + err)


def in_bytes(size):
    units = {"K": 10, "M": 20, "G": 30}
    return int(size[:-1]) << units[size[-1]] if size[-1] in units else int(size)


def check_hard_limits(service):
    """Nobody has more on the card: no client, no namespace, no cgroup. Returns for how many that was seen."""
    n = 0
    for row in csv.DictReader(service.command("memacct", "describe", "--format=csv").stdout.splitlines()):
        if row["hard"] != "unlimited":
            assert in_bytes(row["used"]) - in_bytes(row["away"]) <= in_bytes(row["hard"]), row
            n += 1
    return n


class Fleet:
    """The clients of containers, in groups with soft limits."""

    def __init__(self, service, soft):
        self.service, self.soft, self.clients = service, soft, []

    def most(self, group):
        """What the clients of a group have at most."""
        return sum(client.mib + OVERHEAD_MIB for client in self.clients if client.group == group)

    def grow(self, client):
        """Takes another piece, which is never refused inside the soft limit."""
        said = client.ask("more")
        if self.most(client.group) + PIECE_MIB <= self.soft[client.group]:
            equal(said, "took", "%s: %d of %d MiB" % (client.group, self.most(client.group), self.soft[client.group]))
        if said == "took":
            client.mib += PIECE_MIB
        else:
            equal(said, "CUDA_ERROR_OUT_OF_MEMORY", client.group)
        return said == "took"

    def start(self, image, places):
        """Those that borrow come first, as much as they can."""
        self.clients = [Client(image, *place) for place in places]
        for client in self.clients[3:]:
            while client.mib < MOST_MIB and self.grow(client):
                pass
        for client in self.clients[:3]:
            while self.most(client.group) + PIECE_MIB <= self.soft[client.group]:
                self.grow(client)
        contains(self.service.server_log(), "MiB were evicted")

    def play(self, dice):
        for _ in range(ROUNDS):
            client = dice.choice(self.clients)
            if dice.random() < 0.6 and client.mib < MOST_MIB:
                self.grow(client)
            else:
                equal(client.ask("work"), "worked")
            assert check_hard_limits(self.service) >= len(self.clients)

    def end(self):
        for client in self.clients:
            equal(client.ask("work"), "worked")
        for client in self.clients:
            client.end()


def for_all_users(small, **settings):
    made = mps.Service({**small.settings, "MPS_OVERSUBSCRIBE_STAY": "1", **settings}, options=["-p", "3", "-m"])
    made.daemon_env["MPS_SERVER_USER"] = "nobody"
    return made


@contextlib.contextmanager
def five_containers(service, soft, cgroups=None):
    with contained.Image(service, "oversize", mps.CONTROL) as image:
        fleet = Fleet(service, soft)
        fleet.start(image, [(name, uid, cgroup if cgroups else name, cgroups and os.path.join(cgroups.path, cgroup))
                            for name, uid, cgroup in CONTAINERS])
        fleet.play(harness.dice())
        yield image
        fleet.end()


def test_five_containers():
    need_root()
    with OpenCard(CARD_MIB) as small, for_all_users(small) as service:
        service.command("server", "create", "pool")
        for name, (soft, hard) in NAMESPACES.items():
            service.command("namespace", "create", name, "--server=pool")
            service.command("namespace", "set", name, "--server=pool", "--soft-limit=%dM" % soft,
                            "--pinned-memory-limit=%dM" % hard)
        with five_containers(service, {name: soft for name, (soft, _) in NAMESPACES.items()}) as image:
            check_root(service, image)
        wait_for("the card to be empty", lambda: small.used() <= 4 << 20)


def test_containers_in_cgroups():
    """The same by dmem.min and dmem.max, with cgroups whose containers have several namespaces."""
    need_root()
    with OpenCard(CARD_MIB) as small, Cgroups() as cgroups, \
            for_all_users(small, MPS_CGROUP_ROOT=cgroups.root) as service:
        service.command("server", "create", "pool")
        cgroups.find_device(service)
        cgroups.write("", dmem_max=ABOVE_MIB << 20, dmem_min=sum(soft for soft, _ in CGROUPS.values()) << 20)
        for name, (soft, hard) in CGROUPS.items():
            cgroups.write(name, dmem_min=soft << 20, dmem_max=hard << 20)
        for name in NAMESPACES:
            service.command("namespace", "create", name, "--server=pool")
        with five_containers(service, {name: soft for name, (soft, _) in CGROUPS.items()}, cgroups):
            pass
        wait_for("the card to be empty", lambda: small.used() <= 4 << 20)


def check_root(service, image):
    """Root of a container cannot lift its limit, nor end others."""
    for words in (("namespace", "set", "bronze", "--server=pool", "--soft-limit=1G"), ("server", "delete", "pool")):
        code, out, err = image.run("mps-control", *words, mounts=("%s/pool/bronze:%s" % (
            service.pipe, contained.PIPE),), env=())
        equal(code, 1, out + err)
        contains(out + err, "privileges")
    contains(service.command("namespace", "get", "bronze", "pool", "soft-limit").stdout, "12M")


if __name__ == "__main__":
    harness.main(globals())
