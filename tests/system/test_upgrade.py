#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 200 s
"""An upgrade moves the clients into servers of the installed build."""

import contextlib
import json
import os
import re
import struct

import card
import harness
import mps
import test_restart
import wire
from harness import contains, equal, wait_for

CARD_MIB = 256


class Installed(mps.Service):
    """A service whose programs lie in a folder of its own, where others can replace them.

    `spec' is the hash of the wire of the programs and of the client library, `move' that of what
    servers send to their successors.
    """

    def __init__(self, settings, spec=None, move=None):
        super().__init__(settings)
        self.bin = os.path.join(self.folder, "bin")
        os.mkdir(self.bin)
        self.control = os.path.join(self.bin, "mps-control")
        self.library = mps.LIBRARY
        self.install(0, spec, move)

    def put(self, source, name, change):
        """As a package does: the file before stays with the processes that have it."""
        path = os.path.join(self.bin, name)
        with open(source, "rb") as file, open(path + ".new", "wb") as copy:
            copy.write(change(file.read()))
        os.chmod(path + ".new", 0o755)
        os.rename(path + ".new", path)
        return path

    def install(self, build, spec=None, move=None):
        def with_hash(code, known, other):
            known = struct.pack("<Q", known)
            assert known in code
            return code.replace(known, struct.pack("<Q", other)) if other else code

        def with_spec(code):
            return with_hash(code, wire.spec_hash(), spec)

        self.put(os.path.join(harness.BUILD, "bin", "mps-server"), "mps-server",
                 lambda code: with_hash(with_spec(with_build(code, build)), wire.move_hash(), move))
        self.put(mps.CONTROL, "mps-control", with_spec)
        self.library = self.put(mps.LIBRARY, "libmpsclient.so", with_spec) if spec else mps.LIBRARY

    def client_env(self, preload=True, **more):
        env = super().client_env(preload, **more)
        if preload:
            env["LD_PRELOAD"] = env["LD_PRELOAD"].replace(mps.for_everybody(mps.LIBRARY),
                                                          self.library)
        return env

    def upgrade(self, build, spec=None):
        """What the package does."""
        self.install(build, spec)
        self.daemon.kill()
        self.daemon.wait()
        self.start()


def with_build(code, build):
    """The program with another build ID, as if the linker had seen other code."""
    mark = struct.pack("<III4s", 4, 20, 3, b"GNU\0")
    at = code.index(mark) + len(mark)
    return code[:at] + struct.pack("<Q", 0x1234 + build) + code[at + 8:]


@contextlib.contextmanager
def installed(spec=None, move=None, **settings):
    settings.setdefault("MPS_MOVE_ON_UPGRADE", "1")
    with card.Card(CARD_MIB) as small, Installed(dict(small.settings, **settings), spec, move) as service:
        yield service
        wait_for("the card to be empty", lambda: small.used() <= 4 << 20)


def moved(service, old):
    """The PID of the server that has the clients of the old one, once all is done."""
    wait_for("the move", lambda: "Server %d has moved its" % old in service.control_log(), 60)
    wait_for("the end of the old server", lambda: not mps.is_alive(old))
    new = service.server()
    assert new != old
    return new


def test_clients_move():
    """Programs that work meanwhile go on in a server of the new build, and compute right."""
    with installed() as service:
        clients = [test_restart.Resident(service) for _ in range(2)]
        busy = service.popen("resident", "60")
        service.wait_for_active(busy)
        for build in (1, 2):
            old = service.server()
            service.upgrade(build)
            new = moved(service, old)
            equal(os.readlink("/proc/%d/exe" % new), os.path.join(service.bin, "mps-server"))
            for client in clients:
                client.ask()
        contains(service.control_log(), "of build %016x, and %016x is installed" % (0x1234, 0x1235))
        code, out, err = service.finish(busy)
        equal(code, 0, out + err)
        contains(out, "resident: ok")
        for client in clients:
            client.end()


def test_nobody_has_asked():
    """Without MPS_MOVE_ON_UPGRADE the server stays, and the operator moves its clients."""
    with installed(MPS_MOVE_ON_UPGRADE="0") as service:
        client = test_restart.Resident(service)
        old = service.server()
        service.upgrade(1)
        service.wait_for_log("restart_server moves its clients", "control")
        contains(service.command("ps").stdout, "Server %d of user %d is of an earlier build: "
                 "restart_server would move its clients" % (old, os.getuid()))
        client.ask()
        equal(service.servers(), [old])
        contains(test_restart.restart(service), "moved its 1 clients")
        equal(earlier(service), [])
        client.ask()
        client.end()


def test_same_build():
    """The daemon alone is replaced: nobody moves."""
    with installed() as service:
        client = test_restart.Resident(service)
        old = service.server()
        service.upgrade(0)
        service.wait_for_log("Adopted server %d" % old, "control")
        client.ask()
        equal(service.servers(), [old])
        client.end()


def earlier(service):
    return json.loads(service.command("ps", "--json").stdout)["earlier_servers"]


def test_who_stays():
    """A client that cannot move: its server goes on, and ps says why, until the client has ended."""
    with installed(MPS_IDLE_S="1") as service:
        resident = test_restart.Resident(service)
        code = test_restart.start_compressed(service)
        old = service.server()
        service.upgrade(1)
        why = "Server %d keeps its clients: client %d cannot move: it has compressed memory" % (
            old, code.pid)
        service.wait_for_log(why, "control")
        wait_for("the successor to end", lambda: service.servers() == [old])
        resident.ask()
        contains(service.command("ps").stdout, "Server %d of user %d is of an earlier build: %s" % (
            old, os.getuid(), why))
        equal([(row["pid"], row["differs"]) for row in earlier(service)], [(old, "build")])
        code.kill()
        code.wait()
        moved(service, old)
        equal(earlier(service), [])
        equal(len(re.findall(r"\] Server %d keeps its clients" % old, service.control_log())), 1)
        resident.ask()
        resident.end()


def test_another_format():
    """Another format of moves: the server is adopted and keeps its clients, and ps says so."""
    with installed(move=wire.move_hash() ^ 1) as service:
        client = test_restart.Resident(service)
        old = service.server()
        service.upgrade(1)
        why = "Server %d keeps its clients: the next server is of another build" % old
        service.wait_for_log(why, "control")
        contains(service.command("ps").stdout, why)
        client.ask()
        service.run_ok("resident", "2")
        equal(service.servers(), [old])
        client.end()


def test_another_version():
    """Another wire: the server keeps its clients, ps says so, and new clients get another one."""
    with installed(spec=wire.spec_hash() ^ 1, move=wire.move_hash() ^ 1) as service:
        client = test_restart.Resident(service)
        old = service.server()
        service.upgrade(1)
        service.wait_for_log("is of another version", "control")
        contains(service.command("ps").stdout, "Server %d of user %d is of another version: it works "
                 "for its clients until they have ended" % (old, os.getuid()))
        equal([(row["pid"], row["differs"]) for row in earlier(service)], [(old, "version")])
        client.ask()
        service.run_ok("resident", "2")
        client.ask()
        assert service.servers() != [old]
        client.end()
        wait_for("the end of the old server", lambda: not mps.is_alive(old), 60)
        wait_for("ps to forget it", lambda: earlier(service) == [])


if __name__ == "__main__":
    harness.main(globals())
