# SPDX-License-Identifier: Apache-2.0
"""Steps of tests/gpu/run: what clients get of a GPU, in SMs, in memory and in time."""

import re
import sys
import threading
import time
import typing

import compare
import copies
import harness
import judge
import mps
import test_active_threads
import test_graph_shares
import test_memory_limits
import test_priorities
import ways
from examples import numbers, values
from group import Group
from harness import equal, settled
from table import need, row, save, show

QUARTER = test_active_threads.share(25)
ALL_GROUPS = test_active_threads.share("99.9")
# Four blocks at a time on each place of 132 SMs; a launch takes 0.75 ms there, much longer than the
# host needs for it, even beside other programs.
SATURATE = ("--seconds", "0.7", "--blocks", "4224", "--turns", "5000")
WAYS = ("plain", "burst", "graph")
# ... of smids, whose kernels can keep to a share.
SHARED_WAYS = ("plain", "stream", "burst", "graph", "captured")
# So many rounds are to count, of so many at most.
ROUNDS, MOST_ROUNDS = 2, 5

MIB, GIB = 1 << 10, 1 << 20  # KiB
LIMIT = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=2G"}
# The ways of limited_memory, and the KiB of each piece.
LIMITED = (("plain", 64 * MIB), ("plain", MIB), ("async", 64 * MIB), ("pool", 64 * MIB),
           ("create", 64 * MIB), ("array", 64 * MIB), ("managed", 64 * MIB))
TORCH = """
try:
    import torch
except ImportError:
    print("no torch")
    raise SystemExit(0)
total, pieces, error = torch.cuda.mem_get_info()[1], [], None
try:
    while len(pieces) < 64:
        pieces.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
except torch.cuda.OutOfMemoryError as refused:
    error = refused
print("total=%d got=%d" % (total >> 10, len(pieces) << 16))
print(type(error).__name__, error)
"""


# ---- SMs


class Round(typing.NamedTuple):
    """Blocks a second of a client with a quarter, and of four such clients at once; and of one
    with all SMs before and after these."""
    before: dict
    alone: dict
    four: list
    after: dict

    def counts(self, way):
        """Whether the full speed stayed the same. Where the host is too busy, it does not."""
        return abs(self.before[way] - self.after[way]) <= 0.1 * self.before[way]

    def share(self, way, speeds):
        return 2 * speeds[way] / (self.before[way] + self.after[way])


def four_at_once(service):
    """The speeds of four clients with a quarter each, at the same time."""
    at = "%.3f" % (time.time() + 4)
    running = [service.popen("saturate", *SATURATE, "--at", at, env=QUARTER) for _ in range(4)]
    found = []
    for process in running:
        code, out, err = service.finish(process, 30)
        equal(code, 0, out + err)
        found.append(values(out))
    return found


def measured_rounds(service):
    """Rounds, until enough of them count for each way."""
    rounds, before = [], numbers(service, "saturate", *SATURATE)
    while len(rounds) < MOST_ROUNDS and any(
            sum(each.counts(way) for each in rounds) < ROUNDS for way in WAYS):
        alone = numbers(service, "saturate", *SATURATE, env=QUARTER)
        four = four_at_once(service)
        after = numbers(service, "saturate", *SATURATE)
        rounds.append(Round(before, alone, four, after))
        before = after
    return rounds


def report_shares(what, way, shares):
    """Each speed is to be a quarter of the whole one, nearly."""
    row("25 %%, %s, %s: part of its speed at 100 %%" % (what, way),
        "%.3f to %.3f" % (min(shares), max(shares)) if shares else "not measured", "0.2 to 0.3",
        bool(shares) and all(0.2 <= share <= 0.3 for share in shares))


def report_way(rounds, way):
    whole = [each.before[way] for each in rounds] + [rounds[-1].after[way]]
    counted = [each for each in rounds if each.counts(way)]
    row("100 %%, %s, blocks a second" % way, "%.0f to %.0f" % (min(whole), max(whole)),
        "%d of %d rounds count" % (len(counted), len(rounds)), len(counted) >= ROUNDS)
    report_shares("alone", way, [each.share(way, each.alone) for each in counted])
    report_shares("four at once", way,
                  [each.share(way, one) for each in counted for one in each.four])


def step_shares():
    """A quarter of the SMs is a quarter of the speed, alone and beside three others."""
    with mps.Service(library=None) as service:
        rounds = measured_rounds(service)
        for way in WAYS:
            report_way(rounds, way)
        found = [set.union(*ways) for ways in
                 test_active_threads.Together(service, [QUARTER] * 4).ways()]
        row("SMs of four clients with 25 %", " ".join(str(len(sms)) for sms in found))
        show("\n".join(line for line in service.server_log().splitlines() if " SMs" in line))
        save(service, "shares")
        # A GPU can have fewer SMs in groups than four quarters take: an H100 had 15 groups of 8.
        (every, *_), = test_active_threads.Together(service, [ALL_GROUPS]).ways()
        need("they have as many SMs together as the GPU has in groups",
             len(set.union(*found)) == min(len(every), sum(map(len, found))), (found, every))


def within_share(service, everything):
    """The SMs of each way of launching beside a foreground client; not at once, perhaps."""
    for _ in range(10):
        found = test_priorities.background(service, "--fewer")
        if all(0 < found[way] < everything[way] for way in SHARED_WAYS):
            break
    return found


def speeds_in_share(service):
    """Of a background client alone, and beside a foreground client; and its SMs there."""
    everything = test_priorities.sms_of(service.run_ok("smids")[0])
    alone = numbers(service, "saturate", *SATURATE, env=test_graph_shares.BACKGROUND)
    foreground = service.popen("stuck", "busy")
    equal(foreground.stdout.readline(), "stuck: running\n")
    found = within_share(service, everything)
    beside = numbers(service, "saturate", *SATURATE, env=test_graph_shares.BACKGROUND)
    foreground.kill()
    service.finish(foreground)
    return everything, found, {way: beside[way] / alone[way] for way in WAYS}


def step_background():
    """Graphs of a background client run within its share."""
    with mps.Service(library=None) as service:
        everything, found, speeds = speeds_in_share(service)
        for way in SHARED_WAYS:
            row("SMs of a background client beside another, %s" % way, found[way],
                "below %d" % everything[way], 0 < found[way] < everything[way])
        for way in WAYS:
            row("... its speed / alone, %s" % way, "%.2f" % speeds[way])
        save(service, "background")


def step_random_graphs():
    """Random graphs in each mode, with disabled nodes of all kinds."""
    dice = harness.dice()
    for mode, (settings, env) in test_graph_shares.MODES.items():
        with mps.Service(settings, library=None) as service:
            for _ in range(5):
                seed, process = test_graph_shares.at_random(service, dice, "5000", env)
                code, out, err = service.finish(process)
                need("random graphs %s, seed %s" % (mode, seed),
                     (code, out) == (0, "graph_random: ok\n"), out + err)
            save(service, "random_graphs_" + mode.split()[0])


# ---- memory


def holds(service, way, kib, env, whose="a limit"):
    """This way of allocating gets less than its limit of 2 GiB only by what it rounds."""
    out, _ = test_memory_limits.run(service, way, kib, env)
    got = test_memory_limits.numbers(out, way)
    totals = {total for _, total, _ in test_memory_limits.numbers(out, "at first")}
    good = totals == {2 * GIB} and len(got) == 2 and all(
        1.5 * GIB <= size <= 2 * GIB and result == 2 for size, result in got)
    row("%s of 2 GiB, %s in pieces of %d MiB: MiB" % (whose, way, kib // MIB),
        ", ".join("%d" % (size // MIB) for size, _ in got), "2048 at most", good)
    if not good:
        show(out)


def holds_for_torch(service):
    # The wheel brings its libraries; the first import from a cold disk takes long.
    code, out, err = service.run(sys.executable, "-c", TORCH, timeout=100,
                                 env=dict(LIMIT, LD_LIBRARY_PATH=None))
    if out == "no torch\n":
        row("a limit of 2 GiB, PyTorch", "skipped", "it is not installed")
        return
    found = re.search(r"^total=(\d+) got=(\d+)$", out, re.M)
    show(out)
    need("PyTorch ends with OutOfMemoryError", code == 0 and found and "OutOfMemoryError" in out,
         out + err)
    total, got = map(int, found.groups())
    row("mem_get_info of PyTorch: total MiB", total // MIB, "2048", total == 2 * GIB)
    row("PyTorch's tensors within a limit of 2 GiB: MiB", got // MIB, "1024 to 2048",
        GIB <= got <= 2 * GIB)


def step_memory_limits():
    """Limits of 2 GiB, set by the client's environment and by the operator."""
    with mps.Service(library=None) as service:
        out, _ = test_memory_limits.run(service, "plain", 64 * MIB, {})
        got = [size for size, _ in test_memory_limits.numbers(out, "plain")]
        need("without a limit, a client gets more", min(got) > 2 * GIB, out)
        for way, kib in LIMITED:
            holds(service, way, kib, LIMIT)
        holds_for_torch(service)
        service.command("--strict", "group", "create", "g", "-device_pinned_mem_limit", "0", "2G")
        holds(service, "plain", 64 * MIB, {"MPS_GROUP": "g"}, "a group's limit")
        save(service, "memory_limits")
    with mps.Service(library=None) as service:
        service.command("--strict", "set_default_device_pinned_mem_limit", "0", "2G")
        holds(service, "plain", 64 * MIB, {}, "the operator's default")


# ---- the memory that clients need themselves


def crowd(way, count, before):
    """So many processes of one small kernel: the GPU's memory that they add, and their speeds."""
    with Group(way, count) as group:
        mib = settled(copies.gpu_memory_mib, 0.5, 3) - before
        return mib, [answer["per_s"] for answer in group.measure("sync", 2)]


def report_crowd(who, count, found):
    mib, speeds = found
    row("GPU memory, %s, %d at once: MiB" % (who, count), mib, "%.1f each" % (mib / count))
    row("... launch + synchronise a second, all", "%.0f" % sum(speeds),
        "slowest / fastest %.2f" % (min(speeds) / max(speeds)))
    return mib


def step_footprint():
    """The GPU's memory that each client needs for itself, and each native process."""
    before = settled(copies.gpu_memory_mib, 0.5, 3)
    row("GPU memory before: MiB", before)
    for count in (1, 4):
        report_crowd("natively", count, crowd(ways.native(True), count, before))
        settled(copies.gpu_memory_mib, 0.5, 5)
    mib = {}
    with mps.Service(library=None) as service:
        service.run_ok("process1")
        clients = ways.Way(ways.OURS, service.client_env())
        for count in (1, 8, 48):
            mib[count] = report_crowd("as clients", count, crowd(clients, count, before))
        after = settled(copies.gpu_memory_mib, 0.5, 5) - before
        row("the server without clients: MiB", after)
        save(service, "footprint")
    row("MiB of each further client, of 8 and of 48",
        "%.1f, %.1f" % ((mib[8] - mib[1]) / 7, (mib[48] - mib[1]) / 47))


# ---- time

SLEEPS = "torch_streams"
SLEEP_ROUNDS = {"natively": 2, "as clients": 6}


def two_sleepers(program, env):
    """How two copies at once ended."""
    both = copies.Copies(program, env, 2)
    try:
        return both.wait(threading.Event(), program.limit)
    finally:
        both.remove()


def slept_ms(end):
    """How long two sleeps of a kernel took, as that copy has measured; None: it has not."""
    return compare.told(end.out, "note").get("ms of two sleeps", {}).get("value")


def step_sleeps():
    """Two PyTorch processes at once, of which each measures kernels of 100 ms by events."""
    program = next(one for one in copies.programs() if one.name == SLEEPS)
    with mps.Service(library=None) as service:
        for way, env in (("natively", judge.native_environment()),
                         ("as clients", service.client_env())):
            found, wrong = [], []
            for _ in range(SLEEP_ROUNDS[way]):
                ends = two_sleepers(program, env)
                if judge.missing(ends[0]):
                    return row("two sleeps", "skipped", judge.missing(ends[0]))
                found.append([slept_ms(end) for end in ends])
                wrong += [end for end in ends if judge.failed(end, program)]
            row("two sleeps of 100 ms, of two processes %s: ms" % way,
                ", ".join("%s and %s" % tuple(sorted(pair, key=str)) for pair in found))
            need("... and right results", not wrong, wrong[:1])
        save(service, "sleeps")
    return None


STEPS = [(step_shares, 120), (step_background, 120), (step_random_graphs, 120),
         (step_memory_limits, 200), (step_footprint, 120),
         (step_sleeps, 240)]
