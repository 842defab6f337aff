#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 400 s
"""A server for all users, three namespaces with soft and hard limits, and five containers.

Each container has users, processes, mounts and IPC of its own, and only the directory of its namespace.
MPS_TEST_LONG=1: many more requests.
"""

import os
import subprocess
import tempfile

import card
import contained
import harness
import mps
import oversubscribed
from harness import contains, equal, need_root, wait_for

CARD_MIB = 128
PIECE_MIB = 4
# What a client has beside its pieces, at most: blocks that are not full.
OVERHEAD_MIB = 4
ROUNDS = 400 if os.environ.get("MPS_TEST_LONG") else 30
# Soft and hard limits; the soft ones fit on the card together.
NAMESPACES = {"gold": (40, 64), "silver": (24, 48), "bronze": (12, 96)}
CONTAINERS = (("gold", 0), ("gold", 1000), ("silver", 65534), ("bronze", 0), ("bronze", 1001))
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

    def __init__(self, image, namespace, uid):
        library = os.path.dirname(mps.for_everybody(mps.LIBRARY))
        self.service, self.namespace, self.mib = image.service, namespace, PIECE_MIB
        words = image.words("oversize", "plain", str(PIECE_MIB), str(PIECE_MIB * 1024), uid=uid, mounts=(
            "%s/pool/%s:%s" % (image.service.pipe, namespace, contained.PIPE), library + ":" + contained.LIBRARY))
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.service.started.append(self.process)
        said = self.answer()
        if said != "has":
            code, out, err = self.service.finish(self.process)
            if code == contained.REFUSED:
                raise harness.Skip("this machine allows no containers: " + err.strip())
            raise AssertionError(said + out + err)


def sums(clients, namespace):
    """The least and the most that the clients of a namespace have."""
    own = [client for client in clients if client.namespace == namespace]
    least = sum(client.mib for client in own)
    return least, least + OVERHEAD_MIB * len(own)


def grow(clients, client):
    """Takes another piece: that is refused beyond the hard limit, and never inside the soft one."""
    soft, hard = NAMESPACES[client.namespace]
    least, most = sums(clients, client.namespace)
    said = client.ask("more")
    if least + PIECE_MIB > hard:
        equal(said, "CUDA_ERROR_OUT_OF_MEMORY", client.namespace)
    if most + PIECE_MIB <= soft:
        equal(said, "took", "%s: %d to %d of %d MiB" % (client.namespace, least, most, soft))
    if said == "took":
        client.mib += PIECE_MIB


def one_round(clients, dice):
    client = dice.choice(clients)
    if dice.random() < 0.6 and client.mib < MOST_MIB:
        grow(clients, client)
    else:
        equal(client.ask("work"), "worked")


def for_all_users(small):
    made = mps.Service({**small.settings, "MPS_OVERSUBSCRIBE_STAY": "1"}, options=["-p", "3", "-m"])
    made.daemon_env["MPS_SERVER_USER"] = "nobody"
    return made


def test_five_containers():
    need_root()
    dice = harness.dice()
    with OpenCard(CARD_MIB) as small, for_all_users(small) as service:
        service.command("server", "create", "pool")
        for name, (soft, hard) in NAMESPACES.items():
            service.command("namespace", "create", name, "--server=pool")
            service.command("namespace", "set", name, "--server=pool", "--soft-limit=%dM" % soft,
                            "--pinned-memory-limit=%dM" % hard)
        with contained.Image(service, "oversize", mps.CONTROL) as image:
            clients = [Client(image, *where) for where in CONTAINERS]
            # Those that borrow come first, as much as they can.
            for client in clients[3:]:
                while client.mib < MOST_MIB:
                    client.mib += PIECE_MIB
                    equal(client.ask("more"), "took")
            for client in clients[:3]:
                while sums(clients, client.namespace)[1] + PIECE_MIB <= NAMESPACES[client.namespace][0]:
                    grow(clients, client)
            assert "MiB were evicted" in service.server_log(), service.server_log()
            for _ in range(ROUNDS):
                one_round(clients, dice)
            for client in clients:
                equal(client.ask("work"), "worked")
            check_root(service, image)
            for client in clients:
                client.end()
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
