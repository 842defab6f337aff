# SPDX-License-Identifier: Apache-2.0
"""Rounds of hostile processes of two users and of a stranger, with good programs beside them.

The hostile clients of the second user always keep the bounds of manners.py, so
the good programs of the second user must succeed. In most kinds of round the good
programs of the first user must succeed, too. After each round every server that
must survive has given everything back, no server has died of a signal, and no
sanitizer has reported an error.
"""

import contextlib
import os
import random
import signal
import time
import traceback
from dataclasses import dataclass, field

import mps
from . import ground, kin, scenes_groups
from .attacker import Attacker
from .manners import Manners
from .share import Share
from .strangers import Stranger

FIRST_UID, SECOND_UID, STRANGER_UID = 61001, 61002, 61003
SETTINGS = {"SOFTGPU_DEVICES": str(ground.GPUS), "SOFTGPU_MEMORY_MIB": "4096",
            "MPS_GRACE_MS": str(4000 * mps.SLOW)}
# A hostile process that runs so long after the end of its round is killed.
SLACK_S = 20
COMMAND_S = 10
VICTIM_S = 60
ASK_EACH_S = 0.5
# These programs need for themselves what the clients of a server share: the output of kernels,
# green contexts, limits.
SENSITIVE = ("print", "green_contexts", "limits", "last_words", "launch_blocking")
VICTIMS = tuple(name for name in mps.PROGRAMS if name not in mps.ALONE + SENSITIVE)
# Programs that do harm after an error. `callbacks' exits while it holds a lock that its host
# function waits for. `device_functions' follows pointers that a failed kernel has not written.
CARELESS = ("callbacks", "device_functions")
# CUresults of failing driver calls; none is a fault of the GPU.
MISFORTUNES = (2, 2, 2, 1, 304, 999, 801)
STALL_MS = 50


class Failure(Exception):
    """A broken promise of the service."""


@dataclass
class Kind:
    """A kind of round; `manners' are those of the first user's hostile clients."""

    name: str
    share: int
    manners: Manners = field(default_factory=Manners)
    is_unlucky: bool = False  # calls of the driver fail

    def spares(self, user):
        """Whether that user's good programs have to succeed."""
        return not self.is_unlucky and (not self.manners.harms or not user.is_first)

    def keeps(self, user):
        """Whether that user's server has to live."""
        return not self.manners.harms or not user.is_first


KINDS = (Kind("quiet", 4), Kind("blocked", 2, Manners(blocks=True)),
         Kind("harm", 2, Manners(harms=True, blocks=True)), Kind("misfortune", 2, is_unlucky=True))


class Victim:
    """Runs good programs of one user, one after the other."""

    def __init__(self, user, dice, must_succeed):
        self.user, self.dice, self.must_succeed = user, dice, must_succeed
        self.names = tuple(n for n in VICTIMS if must_succeed or n not in CARELESS)
        self.process, self.began, self.n = None, 0, 0

    def look(self):
        if not self.process:
            self.process = self.user.run(self.dice.choice(self.names))
            self.began = time.monotonic()
        elif time.monotonic() - self.began > VICTIM_S * mps.SLOW:
            self.finish(1)
        elif self.process.poll() is not None:
            # Its children may still write to its output: finish() waits for them, too.
            self.finish()

    def finish(self, timeout_s=VICTIM_S):
        """Fails if the program does not end in time, or had to succeed and has not."""
        if not self.process:
            return
        process, self.process = self.process, None
        code, out, err = self.user.service.finish(process, timeout_s)
        self.user.service.started.remove(process)
        self.n += 1
        name = os.path.basename(process.args[0])
        if self.must_succeed and (code != 0 or "%s: ok" % name not in out):
            raise Failure("%s of user %d beside hostile clients: exit code %d: %s%s; the GPU: %s"
                          % (name, self.user.uid, code, out, err, self.user.holds()))


def service():
    """A service that knows the subordinate UIDs of the strangers."""
    made = ground.Service(SETTINGS)
    with open(made.subordinates, "w", encoding="ascii") as file:
        file.write(kin.subordinate_ranges())
    return made


class Fuzz:
    def __init__(self, service, seed):
        self.service, self.seed = service, seed
        self.dice = random.Random(seed)  # another one for each round
        self.share = Share()
        is_root = os.geteuid() == 0
        # Without root there is one user, and no stranger.
        uids = (FIRST_UID, SECOND_UID) if is_root else (os.getuid(),)
        self.users = [ground.User(service, uid, i == 0) for i, uid in enumerate(uids)]
        self.stranger_uid = STRANGER_UID if is_root else None
        self.children = []
        self.log_at = 0
        for user in self.users:
            user.warm_up()
        for words in scenes_groups.first_lines(uids[0]):
            self.service.command("--strict", *words)
        self.daemon = ground.Daemon(service)

    # ---- hostile processes

    def fork(self, lives, uid):
        """Runs `lives' in a process of that user, in a process group of its own.

        A Kin begins as root.
        """
        child = os.fork()
        if child:
            self.children.append(child)
            return
        try:
            os.setpgid(0, 0)
            if os.geteuid() == 0 and uid != 0:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            lives.run()
        except Exception:  # a mistake in the fuzzer
            traceback.print_exc()
            self.share.counts.add("broken")
        finally:
            os._exit(0)

    def let_loose(self, kind, number, until):
        for user in self.users:
            manners = kind.manners if user.is_first else Manners()
            for i in range(2 if user.is_first else 1):
                seed = "%s/%d/%d/%d" % (self.seed, number, user.is_first, i)
                self.fork(Attacker(self.service, seed, self.share, until, manners), user.uid)
        if self.stranger_uid:
            seed = "%s/%d/stranger" % (self.seed, number)
            self.fork(Stranger(self.service, seed, self.share, until), self.stranger_uid)
            self.fork(kin.Kin(self.service, seed + "/kin", self.share, until), 0)

    def reap(self, until):
        """Waits for the hostile processes, and kills the rest of their groups."""
        for child in self.children:
            while os.waitpid(child, os.WNOHANG) == (0, 0) and time.monotonic() < until:
                time.sleep(0.01)
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
        self.children = []

    # ---- a round

    def play(self, kind, number, seconds):
        self.dice = random.Random("%s/%d" % (self.seed, number))
        until = time.monotonic() + seconds
        victims = [Victim(user, self.dice, kind.spares(user)) for user in self.users]
        self.let_loose(kind, number, until)
        asked = 0
        try:
            while time.monotonic() < until:
                for victim in victims:
                    victim.look()
                if kind.is_unlucky:
                    self.strike()
                if time.monotonic() - asked > ASK_EACH_S:
                    self.ask()
                    asked = time.monotonic()
                time.sleep(0.02)
            self.service.switch.set(0)
        finally:
            self.reap(until + SLACK_S * mps.SLOW)
        for victim in victims:
            victim.finish()
        self.check(kind)
        return sum(victim.n for victim in victims)

    def strike(self):
        """Chooses the next driver call that fails, or stalls.

        None waits for all streams (Switch.WAIT): if one of them waits for a word of a GPU's
        memory, only another call of the driver could write it, and the server has to end.
        """
        switch, dice = self.service.switch, self.dice
        if switch.name() or not switch.seen():
            if dice.random() < 0.8:
                switch.set(dice.randrange(1, 400), switch.RESULT, dice.choice(MISFORTUNES))
            else:
                switch.set(dice.randrange(1, 400), switch.STALL, STALL_MS)

    def ask(self):
        """Sends an operator's command, which must be answered in time."""
        words = self.dice.choice((("get_server_list",), scenes_groups.any_line(self.dice)) + tuple(
            (command, str(user.server)) for user in self.users
            for command in ("get_server_status", "get_client_list")))
        self.service.command(*words, check=False, timeout=COMMAND_S)

    # ---- after it

    def check(self, kind):
        complaints = self.service.complaints()
        if complaints:
            raise Failure("a sanitizer says: %s" % "\n".join(complaints))
        if self.share.counts.get("broken"):
            raise Failure("a hostile process has failed; its traceback is above")
        text = self.service.control_log()
        found = ground.deaths(text[self.log_at:])
        self.log_at = len(text)
        if found:
            raise Failure("\n".join(found))
        self.daemon.check()
        for user in self.users:
            if kind.keeps(user):
                user.check()
            else:
                self.restore(user)

    def restore(self, user):
        """Starts a new server for a user whose last server may have had a fault."""
        pid = user.server_of()
        if pid:
            self.service.command("shutdown_server", str(pid), "-f", check=False)
            until = time.monotonic() + ground.DEADLINE_S * mps.SLOW
            while mps.is_alive(pid) and time.monotonic() < until:
                time.sleep(0.05)
            if mps.is_alive(pid):
                raise Failure("server %d does not end" % pid)
        # After several failures in a row the daemon waits before it starts another server.
        until = time.monotonic() + ground.DEADLINE_S * mps.SLOW
        while self.service.finish(user.run("process1"))[0] != 0:
            if time.monotonic() > until:
                raise Failure("user %d has no server" % user.uid)
            time.sleep(0.5)
        user.warm_up()


def kinds_for(dice):
    """An endless sequence of kinds of round. The first is quiet."""
    yield KINDS[0]
    while True:
        order = [kind for kind in KINDS for _ in range(kind.share)]
        dice.shuffle(order)
        yield from order


def run(fuzz, seconds, only=None):
    """Plays rounds until the time is over; prints a line for each."""
    began = time.monotonic()
    number = 0
    dice = random.Random(fuzz.seed)
    for kind in kinds_for(dice):
        left = began + seconds - time.monotonic()
        if left < 2 and number:
            break
        if only and kind.name not in only:
            continue
        number += 1
        before = fuzz.share.counts.get("messages"), fuzz.share.counts.get("sessions")
        length = min(dice.choice((3, 5, 8)), max(left, 2))
        try:
            n = fuzz.play(kind, number, length)
        except Exception as why:
            raise Failure("in round %d, %s: %s" % (number, kind.name, why)) from why
        print("%4d s: round %d, %s, %.0f s: %d messages, %d sessions, %d good programs" % (
            time.monotonic() - began, number, kind.name, length,
            fuzz.share.counts.get("messages") - before[0],
            fuzz.share.counts.get("sessions") - before[1], n), flush=True)
