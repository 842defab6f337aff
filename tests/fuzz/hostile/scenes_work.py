# SPDX-License-Identifier: Apache-2.0
"""Scenes of work and code, as scenes.py has them of memory."""

import time

import wire
from . import images
from .scenes import chance, kernels, map_frame, new, some_memory, stream, use

ATTRS = {name: wire.SPEC.limits["LAUNCH_ATTR_" + name] for name in
         ("COOPERATIVE", "CLUSTER", "CLUSTER_POLICY", "PRIORITY", "REMOTE_DOMAIN",
          "SERIALIZATION", "PROGRAMMATIC_EVENT", "TRIGGER_AT_START", "COMPLETION_EVENT")}
ONE = (1, 1, 1)
# CUjitInputType: PTX is 1.
PTX = 1
# CU_JIT_LOG_VERBOSE, CU_JIT_GENERATE_LINE_INFO, CU_JIT_MAX_REGISTERS.
GOOD_OPTIONS = ((12, 1), (13, 1), (0, 32))
# The wait of CUstreamBatchMemOpType for 32 bits, and its write; flags: at least, equal.
WAIT, WRITE = 1, 2


def kernel_of(c, name):
    """The id of a kernel of that name, or of another one."""
    found = [number for number, kernel in c.known.kernels.items() if kernel.name == name]
    return c.dice.choice(found) if found else c.known.id("kernel")


def launch(c, name, where=None, **given):
    kernel = kernel_of(c, name)
    given = dict({"grid": ONE, "block": ONE, "shared_bytes": 0,
                  "params": c.values.params(kernel)}, **given)
    c.say("launch", stream=stream(c) if where is None else where, kernel=kernel, **given)


# ---- launches


def scene_burst(c):
    """Bursts of launches of one length, which the server sends together; some launches fail."""
    where = stream(c)
    n = c.dice.choice((2, 3, 4, 8, 17, 33, 64))
    for _ in range(c.dice.choice((1, 6))):
        words = []
        for _ in range(n):
            kernel = kernel_of(c, c.dice.choice((b"h_empty", b"h_count", b"h_many")))
            size = c.known.kernels[kernel].size if kernel in c.known.kernels else 0
            c.seq += 1
            words.append(wire.message(
                "launch", 0, c.seq & 0xffffffff, stream=where, kernel=kernel, grid=ONE,
                block=ONE if c.dice.random() < 0.99 else (2048, 1, 1), params=bytes(size)))
        c.push(b"".join(words))
        if chance(c, 0.5):
            c.say("seqno_write", stream=where, value=c.seq)


def scene_launches(c):
    launch(c, b"h_shared", shared_bytes=c.dice.choice((0, 1024, 48 << 10, 1 << 20)))
    launch(c, b"h_local")
    launch(c, b"h_spin", params=b"\xff\0\0\0")
    launch(c, b"h_many", params=b"")
    kernel = kernel_of(c, c.dice.choice((b"h_empty", b"h_cluster", b"h_count", b"h_print")))
    mask = c.dice.choice((ATTRS["COOPERATIVE"], ATTRS["CLUSTER"],
                          ATTRS["CLUSTER_POLICY"] | ATTRS["CLUSTER"], ATTRS["PRIORITY"],
                          ATTRS["SERIALIZATION"], ATTRS["REMOTE_DOMAIN"],
                          ATTRS["PROGRAMMATIC_EVENT"] | ATTRS["SERIALIZATION"],
                          ATTRS["COMPLETION_EVENT"] | ATTRS["TRIGGER_AT_START"], 0))
    c.say("launch_with", stream=stream(c), kernel=kernel, grid=(2, 1, 1), block=ONE, shared_bytes=0,
          attr_mask=mask, cluster=c.dice.choice(((2, 1, 1), (0, 0, 0), (1, 1, 1), (3, 1, 1))),
          cluster_policy=c.dice.randrange(3), programmatic_event=c.known.id("event"),
          completion_event=c.known.id("event"), params=bytes(64))


def scene_kernels(c):
    """Queries a kernel, and sets an attribute."""
    kernel = kernel_of(c, c.dice.choice(images.QUIET_KERNELS))
    c.say("kernel_params", kernel=kernel)
    c.say("kernel_set_attribute", kernel=kernel, device=0, attribute=8,
          value=c.dice.choice((0, 1024, 64 << 10, -1, 1 << 30)))
    c.say("kernel_occupancy", kernel=kernel, device=0, block_size=c.dice.choice((0, 32, 1024)),
          shared_bytes=0)
    c.say("kernel_clusters", kernel=kernel, device=0, grid=(4, 1, 1), block=ONE, shared_bytes=0,
          cluster=c.dice.choice(((2, 1, 1), (0, 0, 0))))
    c.say("kernel_available_shared", kernel=kernel, device=0, blocks=1, block_size=32)


def scene_limits(c):
    for limit in range(3):
        c.say("limit_raise", device=0, limit=limit, value=c.dice.choice((1024, 2048, 5000, 70000)))
    launch(c, b"h_local")


def scene_text(c):
    for _ in range(c.dice.randint(1, 4)):
        launch(c, b"h_print", grid=(c.dice.choice((1, 4)), 1, 1))
    for flush in (1, 0, 1):
        c.say("printf_take", flush=flush)


# ---- streams, events, host functions, words


def scene_streams(c):
    """Streams beside the NULL stream, some of which are destroyed while they have work."""
    made = [new(c, "stream") for _ in range(c.dice.randint(1, 5))]
    for number in made:
        c.say("stream_create", stream=number, device=c.values.device() % 2,
              flags=c.dice.randrange(2))
        launch(c, b"h_spin", number)
        c.say("seqno_write", stream=number, value=c.seq)
        c.say("seqno_watch", stream=number, value=c.seq)
    launch(c, b"h_empty", 0)
    for number in made:
        launch(c, b"h_count", number)
    c.say("stream_priority", stream=made[0], priority=c.dice.choice((-5, 0, 3)))
    for number in made:
        if chance(c, 0.7):
            c.say("stream_destroy", stream=number)
            if chance(c, 0.3):
                c.say("stream_create", stream=number, device=0, flags=1)
                launch(c, b"h_empty", number)


def scene_events(c):
    start, end = new(c, "event"), new(c, "event")
    one, other = stream(c), stream(c)
    c.say("event_create", event=start, flags=0)
    c.say("event_create", event=end, flags=c.dice.choice((0, 0, 2, 1)))
    c.say("event_record", event=start, stream=one, seqno=c.seq)
    launch(c, b"h_spin", one)
    c.say("event_record", event=end, stream=one, seqno=c.seq)
    c.say("event_wait", stream=other, event=end)
    launch(c, b"h_empty", other)
    time.sleep(0.002)
    c.say("event_elapsed", start=start, end=end)
    for event in (start, end):
        if chance(c, 0.7):
            c.say("event_destroy", event=event)


def scene_host_calls(c):
    """Host functions, whose end the client tells the server, sometimes late."""
    where = stream(c)
    for _ in range(c.dice.randint(1, 4)):
        c.say("host_call", stream=where, ticket=c.seq + 1)
        launch(c, b"h_empty", where)
        if chance(c, 0.8):
            c.tend()
    event = c.known.id("event")
    c.say("event_record", event=event, stream=where, seqno=c.seq)
    c.say("event_wait", stream=stream(c), event=event)
    if chance(c, 0.05):
        # Longer than the server's patience (server/stream/park.c) with a client that waits for an answer.
        c.say("memory_info")
        until = time.monotonic() + 1.2
        while time.monotonic() < until:
            c.drain()
            time.sleep(0.05)
    c.tend()


def scene_words(c):
    """A stream waits for a word that another stream writes."""
    at = some_memory(c, 4096)
    one, other = stream(c), new(c, "stream")
    value = c.dice.randrange(1, 1 << 30)
    # This stream does not wait for other streams, so the write certainly happens.
    c.say("stream_create", stream=other, device=0, flags=1)
    c.say("fill", stream=other, dst=at, width=4, count=16, rows=1, value=0)
    wait, write = (wire.message("memory_ops", 0, c.seq, stream=where, ops=[op]) for where, op in (
        (one, (at, value, WAIT, c.dice.choice((0, 1)))), (other, (at, value, WRITE, 0))))
    if at and one != other and other not in c.known.gone["stream"]:
        c.push(wait + write)
    if c.manners.blocks and chance(c, 0.5):
        c.say("memory_ops", stream=one, ops=[(at + 8, value, WAIT, 1)])
    c.say("seqno_write", stream=one, value=c.seq)
    launch(c, b"h_empty", one)
    # Load code meanwhile.
    if chance(c, 0.3):
        kernels(c)


# ---- libraries


def scene_library(c):
    """Loads any image, and asks for its kernels and variables by name."""
    library = new(c, "library")
    said = c.say_framed("library_load", library=library)
    if not said:
        return
    names = c.say("library_names", library=library, first=c.dice.choice((0, 0, 1, 1000)))
    c.known.names = tuple(names.get("names", b"").split(b"\0")[:4])
    if c.manners.harms:
        for name in c.known.names:
            c.say("library_kernel", library=library, kernel=new(c, "kernel"), name=name)
    for name in images.QUIET_GLOBALS[:2] + images.MANAGED_GLOBALS[:1]:
        said = c.say("library_global", library=library, device=0, name=name)
        if said:
            use(c, said["address"])
    if chance(c, 0.6):
        c.say("library_unload", library=library)


def scene_twins(c):
    """Loads one image twice, of which the server keeps one copy, and unloads it while work runs."""
    for _ in range(2):
        kernels(c)
    launch(c, b"h_spin")
    launch(c, b"h_count")
    c.say("library_unload")


def scene_compile(c):
    for is_module in (0, 1):
        words = c.dice.choice((images.QUIET, images.QUIET) + images.BROKEN)
        c.say_framed("library_compile", library=new(c, "library"), words=words,
                        is_module=is_module, error_size=c.dice.choice((0, 100, 4096)),
                        info_size=c.dice.choice((0, 1, 4096)),
                        options=c.dice.choice(((), GOOD_OPTIONS)))


def scene_linker(c):
    linker = new(c, "linker")
    c.say("linker_create", linker=linker, device=0, error_size=c.dice.choice((0, 1024)),
          info_size=c.dice.choice((0, 1024)), options=c.dice.choice(((), GOOD_OPTIONS)))
    inputs = (images.CALLER, images.CALLEE) if chance(c, 0.7) else (images.QUIET, images.BROKEN[1])
    for words in inputs:
        c.say_framed("linker_add", linker=linker, words=words[:-1], type=PTX, name=b"part",
                        options=c.dice.choice(((), GOOD_OPTIONS[:1])))
    made = c.say("linker_complete", linker=linker)
    offset, words = 0, b""
    while made and offset < min(made["size"], 1 << 16):
        said = c.say("linker_read", linker=linker, offset=offset)
        if not said or not said["bytes"]:
            break
        words += said["bytes"]
        offset += len(said["bytes"])
    c.say("linker_read", linker=linker, offset=c.dice.choice((0, offset, 1 << 60)))
    if words and chance(c, 0.7):
        kernels(c, words, (b"h_caller",))
    if chance(c, 0.7):
        c.say("linker_destroy", linker=linker)


def scene_managed(c):
    """Variables of __managed__, which lie in pinned memory of the session."""
    library = new(c, "library")
    words = images.MANAGED if chance(c, 0.5) else c.dice.choice(images.managed())
    if not c.say_framed("library_load", library=library, words=words):
        return
    if chance(c, 0.3):
        c.say("library_global", library=library, device=0, name=images.MANAGED_GLOBALS[0])
    if chance(c, 0.3):
        c.say("library_kernel", library=library, kernel=new(c, "kernel"), name=b"h_touch")
    size = c.say("managed_measure", library=library, device=0).get("size", 0)
    address = pinned(c, size or 4096)
    c.say("managed_bind", library=library, device=0, address=address)
    for name in images.MANAGED_GLOBALS:
        c.say("managed_find", library=library, name=name)
    c.say("library_global", library=library, device=0, name=images.MANAGED_GLOBALS[0])
    if chance(c, 0.7):
        c.say("library_unload", library=library)


def pinned(c, size):
    """Address of pinned memory; 0 if there is none."""
    region = c.say("host_region", size=size, after=0, payer=0)
    made = c.say("host_alloc", size=size, payer=0) if region else {}
    memory = map_frame(c, 64 << 20) if made else None
    if not memory:
        return 0
    at = made["start"] - region["address"]
    for page in range(at, min(at + made["span"], len(memory)), 4096):
        memory[page] = 0
    memory.close()
    return made["address"] if c.say("host_pin", device=0, address=made["address"]) else 0


# ---- green contexts, and contexts with shares of their own


def scene_context_share(c):
    most = wire.SPEC.limits["CONTEXT_SHARES_MAX"]
    share = new(c, "context_share") % most
    if not c.say("context_share_create", share=share, device=0,
                 n_groups=c.dice.choice((1, 2, 1 << 31))):
        return
    streams = [new(c, "stream") for _ in range(3)]
    for i, number in enumerate(streams):
        c.say("context_share_stream", stream=number, share=share, flags=c.dice.randint(0, 1),
              is_null=int(i != c.dice.randint(0, 2)), priority=0)
        launch(c, b"h_empty", number)
    for name in c.dice.sample(("context_share_destroy", "stream_destroy"), c.dice.randint(0, 2)):
        if name == "stream_destroy":
            c.say(name, stream=c.dice.choice(streams))
        else:
            c.say(name, share=share)
    for number in streams:
        launch(c, b"h_empty", number)


def scene_green(c):
    whole = wire.SPEC.limits["GREENS_MAX"]
    of = c.dice.choice((whole, min(c.known.id("green"), whole)))
    c.say("sm_resource", device=0, of=of)
    division = {"device": 0, "of": of, "flags": 0, "count": c.dice.choice((2, 8, 16)),
                "wanted": c.dice.choice((0, 1, 2, 3))}
    c.say("sm_split", **division)
    green = new(c, "green") % whole
    parts = c.dice.choice(((), (0,), (0, 1), (wire.SPEC.limits["SM_GROUPS_MAX"],), (0, 0)))
    if not c.say("green_create", green=green, parts=parts, **division):
        return
    number = new(c, "stream")
    c.say("green_stream", stream=number, green=green, priority=0)
    launch(c, b"h_empty", number)
    for name in c.dice.sample(("green_destroy", "stream_destroy"), c.dice.randint(0, 2)):
        c.say(name, **{name.split("_", maxsplit=1)[0]: green if name[0] == "g" else number})
