# SPDX-License-Identifier: Apache-2.0
"""Scenes of memory. A scene_*() is a sequence of messages that succeed if nothing interferes.

The client sends random messages in between, and changes some values (client.py). A
scene may leave objects behind, so that later messages find them.
"""

import contextlib
import mmap
import os

import wire
from . import descriptors, images

ARRAY_FLAGS = (0, 0, 1, 2, 4, 8, 16)  # layered, surface, cube map, gather, depth
FLOAT, U8 = 0x20, 0x01


def furnish(c):
    """Makes the objects that most messages need: a GPU, memory, streams, events, kernels."""
    # Half of the clients have a share of the SMs.
    active_threads = c.dice.choice((0, 0, c.dice.randrange(1, 100000), 25000))
    c.say("device_open", device=0, active_threads=active_threads, memory_limit=0)
    if c.known.n_devices > 1 and c.dice.random() < 0.5:
        c.say("device_open", device=1, active_threads=active_threads,
              memory_limit=c.dice.choice((0, 1 << 20, 1 << 30)))
    for size in (4096, 1 << 20, 2 << 20):
        c.say("memory_alloc", device=0, size=size)
    for flags in (1, 0, 1):
        c.say("stream_create", stream=new(c, "stream"), device=0, flags=flags, priority=0)
    for flags in (0, 2, 0):
        c.say("event_create", event=new(c, "event"), flags=flags)
    kernels(c)


def new(c, kind):
    return c.known.new_id(kind, (1 << 12) - 1)


def kernels(c, words=images.QUIET, names=images.QUIET_KERNELS):
    """Loads a library and some of its kernels."""
    library = new(c, "library")
    if not c.say_framed("library_load", library=library, words=words):
        return
    for name in c.dice.sample(names, c.dice.randint(1, len(names))):
        kernel = new(c, "kernel")
        if c.say("library_kernel", library=library, kernel=kernel, name=name):
            c.say("kernel_params", kernel=kernel)


def some_memory(c, size=65536):
    """Address of new memory of the session; 0 if there is none."""
    return c.say("memory_alloc", device=0, size=size).get("address", 0)


def stream(c):
    return c.known.id("stream")


def chance(c, share):
    return c.dice.random() < share


# ---- device memory


def scene_copies(c):
    """Copies through the staging memory, and within the GPU."""
    at = some_memory(c, c.dice.choice((4096, 1 << 20, 3 << 20)))
    offset = c.dice.choice((0, 4096, 1 << 20))
    c.staging[offset:offset + 64] = c.dice.randbytes(64)
    for _ in range(c.dice.randint(1, 4)):
        size = c.dice.choice((1, 100, 4096))
        c.say("copy_in", stream=stream(c), dst=at, offset=offset, size=size)
        c.say("copy_device", dst=at + size, src=at, size=size)
        c.say("copy_out", src=at, offset=offset, size=size)
        c.say("fill", dst=at, width=4, count=size // 4 + 1, rows=1, pitch=0)
        c.say("fill", dst=at, width=1, count=16, rows=4, pitch=64)
    c.say("memory_info")
    if chance(c, 0.7):
        c.say("memory_free", address=at)


def scene_boxes(c):
    at = some_memory(c, 1 << 20)
    pitch = c.dice.choice((64, 256, 512))
    box = {"stream": stream(c), "width": 32, "height": 4, "depth": 2}
    c.say("copy_box", dst=at, src=at + (1 << 19), dst_pitch=pitch, src_pitch=pitch, dst_rows=4,
          src_rows=c.dice.choice((4, 8)), **box)
    c.say("copy_box", dst=at, src=at + (1 << 19), dst_pitch=32, src_pitch=32, dst_rows=4,
          src_rows=4, **box)
    rows = {"stream": stream(c), "pitch": pitch, "offset": 0, "width": 32, "rows": 8}
    c.say("copy_rows_in", dst=at, **rows)
    c.say("copy_rows_out", src=at, **rows)


def scene_pieces(c):
    """Allocations that share a page are freed in random order."""
    made = [some_memory(c, c.dice.choice((1, 512, 4096, 100000)))
            for _ in range(c.dice.randint(2, 12))]
    c.dice.shuffle(made)
    for address in made:
        c.say("memory_free", address=address + c.dice.choice((0, 0, 0, 0, 512, 1)))


def scene_dmabuf(c):
    """Takes a descriptor of its memory and frees the memory before the descriptor."""
    address = some_memory(c, 4 << 20)
    c.say("memory_dmabuf", address=address, size=c.dice.choice((4096, 1 << 20, 4 << 20)))
    fd = c.take()
    c.say("memory_free", address=address)
    some_memory(c, 4 << 20)
    if fd >= 0:
        os.close(fd)


def scene_full(c):
    """Asks for more memory than exists; or for most of it, where neighbours may fail."""
    sizes = (1 << 29, 1 << 28, 1 << 27) if c.manners.harms else (1 << 36, 1 << 44, (1 << 64) - 1)
    for size in c.dice.sample(sizes, 2):
        c.say("memory_alloc", device=0, size=size)
        c.say("allocation_create", device=0, size=size, is_exportable=0, properties=0,
              allocation=new(c, "allocation"))


# ---- host memory


def map_frame(c, size):
    """Maps the memory that came with a frame; None if none came."""
    fd = c.take()
    if fd < 0:
        return None
    try:
        with contextlib.suppress(OSError, ValueError):
            return mmap.mmap(fd, size)
    finally:
        os.close(fd)
    return None


def scene_host(c):
    """Pinned or managed memory: its pages are made present, pinned, used and freed."""
    payer = c.dice.choice((0, 0, 1))
    region = c.say("host_region", size=c.dice.choice((1 << 20, 1 << 32, (1 << 32) + 1)), after=0,
                   payer=payer)
    if not region:
        return
    memory = map_frame(c, 64 << 20)
    for _ in range(c.dice.randint(1, 3)):
        made = c.say("host_alloc", size=c.dice.choice((100, 4096, 3 << 20)), payer=payer)
        if not made:
            break
        at = made["start"] - region["address"]
        if memory and at + made["span"] <= len(memory) and chance(c, 0.9):
            for page in range(at, at + made["span"], descriptors.PAGE):
                memory[page] = 1
        c.say("host_pin", device=0, address=made["address"])
        use(c, made["address"])
        if chance(c, 0.7):
            c.say("host_free", address=made["address"])
    if chance(c, 0.5):
        c.say("host_region_end", address=region["address"])
    if memory:
        memory.close()


def scene_host_boxes(c):
    """Copies boxes across the end of a piece of pinned memory, where the server divides them."""
    region = c.say("host_region", size=1 << 32, after=0, payer=0)
    made = c.say("host_alloc", size=wire.HOST_PIECE + (4 << 20), payer=0) if region else {}
    memory = map_frame(c, wire.HOST_PIECE + (64 << 20)) if made else None
    if not memory or not chance(c, 0.3):
        return
    at = made["start"] - region["address"]
    for page in range(at, min(at + made["span"], len(memory)), descriptors.PAGE):
        memory[page] = 1
    memory.close()
    if not c.say("host_pin", device=0, address=made["address"]):
        return
    end = made["start"] + wire.HOST_PIECE - made["start"] % wire.HOST_PIECE
    there = some_memory(c, 1 << 20)
    for pitch in (256, 100, 96):
        box = {"stream": stream(c), "dst_rows": 16, "src_rows": 16, "width": 96, "height": 16,
               "depth": c.dice.choice((1, 2))}
        c.say("copy_box", dst=end - 1000, src=there, dst_pitch=pitch, src_pitch=256, **box)
        c.say("copy_box", dst=there, src=end - 1000, dst_pitch=256, src_pitch=pitch, **box)
    array = any_array(c)
    if array is not None:
        c.say("copy_array", stream=stream(c), array=array, is_out=c.dice.randrange(2), x=0, y=0,
              z=0, address=end - 100, pitch=64, rows=16, width=64, height=8, depth=1)
    c.say("host_free", address=made["address"])


def use(c, address):
    """Work on memory of any kind."""
    c.say("fill", dst=address, width=4, count=16, rows=1)
    c.say("copy_in", dst=address, offset=0, size=64)
    c.say("copy_device", dst=address, src=address + 64, size=16)
    # A write of 32 bits.
    c.say("memory_ops", stream=stream(c), ops=[(address, c.dice.randrange(9), 2, 0)])


def scene_alias(c):
    """Registers memory files, and truncates them while they are used."""
    made = [c.say_alias(c.dice.choice((4096, 65536, 4 << 20))) for _ in range(c.dice.randint(1, 3))]
    for said in made:
        if said:
            use(c, said["address"])
            c.say("host_alias_end", address=said["address"])


# ---- virtual memory management


def scene_virtual(c):
    """Maps reserved addresses, uses them, and unmaps them while work runs."""
    region = c.say("address_region", size=c.dice.choice((1 << 20, 1 << 32, 3 << 32)))
    if not region:
        return
    size, at = 2 << 20, region["address"]
    pieces = []
    for i in range(c.dice.randint(1, 4)):
        allocation = new(c, "allocation")
        c.say("allocation_create", allocation=allocation, device=c.values.device() % 2, size=size,
              is_exportable=1, properties=c.dice.randrange(4))
        c.say("allocation_map", allocation=allocation, address=at + i * size, size=size)
        c.known.add_memory(at + i * size, size)
        pieces.append(allocation)
    for device in range(c.known.n_devices):
        c.say("allocation_access", address=at, size=size * len(pieces), device=device, flags=3)
    use(c, at + c.dice.choice((0, size, size - 64)))
    if chance(c, 0.3):
        c.say("allocation_access", address=at, size=size, device=0, flags=c.dice.choice((0, 1)))
    for allocation in c.dice.sample(pieces, c.dice.randint(0, len(pieces))):
        c.say("allocation_release", allocation=allocation)
    busy(c)
    c.say("allocation_unmap", address=at, size=size * len(pieces))
    if chance(c, 0.6):
        c.say("address_region_end", address=at)


def busy(c):
    """Launches a kernel that takes a moment."""
    spin = [number for number, kernel in c.known.kernels.items() if kernel.name == b"h_spin"]
    if spin:
        c.say("launch", stream=stream(c), kernel=c.dice.choice(spin), grid=(1, 1, 1),
              block=(1, 1, 1), shared_bytes=0, params=b"\xff\xff\0\0")


def scene_allocations(c):
    """Exports an allocation as a descriptor, and imports it again."""
    allocation = new(c, "allocation")
    c.say("allocation_create", allocation=allocation, device=0, size=2 << 20, is_exportable=1,
          properties=0)
    c.say("allocation_export", allocation=allocation)
    fd = c.take()
    if fd < 0:
        return
    said = c.say_import(fd)
    imported = c.known.ids["allocation"][-1:]
    region = c.say("address_region", size=1 << 32)
    if said and region and imported:
        c.say("allocation_map", allocation=imported[0], address=region["address"], size=2 << 20)
        c.say("allocation_access", address=region["address"], size=2 << 20, device=0, flags=3)
        use(c, region["address"])


# ---- arrays, textures, tensor maps


def any_array(c, levels=0, depth=0, flags=0):
    array = new(c, "array")
    said = c.say("array_create", array=array, device=0, width=64, height=16, depth=depth,
                 format=c.dice.choice((FLOAT, FLOAT, U8)), channels=c.dice.choice((1, 2, 4)),
                 flags=flags, levels=levels)
    return array if said else None


def scene_arrays(c):
    depth = c.dice.choice((0, 0, 4))
    arrays = [any_array(c, depth=depth, flags=c.dice.choice(ARRAY_FLAGS)) for _ in range(2)]
    if None in arrays:
        return
    at = some_memory(c, 1 << 20)
    box = {"width": 16, "height": 4, "depth": 1}
    corner = {"x": 0, "y": 0, "z": 0}
    for is_out in (0, 1):
        c.say("copy_array", stream=stream(c), array=arrays[0], is_out=is_out, address=at, pitch=256,
              rows=16, **corner, **box)
        c.say("copy_array_rows", stream=stream(c), array=arrays[0], is_out=is_out, offset=0,
              width=16, rows=4, **corner)
    c.say("copy_arrays", stream=stream(c), dst=arrays[0], src=arrays[1], dst_x=0, dst_y=0, dst_z=0,
          src_x=16, src_y=1, src_z=0, **box)
    textures(c, arrays[0])
    if chance(c, 0.6):
        c.say("array_destroy", array=arrays[1])


SAMPLER = (0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def textures(c, array):
    c.say("texture_create", texture=new(c, "texture"), array=array, samplers=[SAMPLER], views=[])
    c.say("texture_create", texture=new(c, "texture"), array=array, samplers=[SAMPLER],
          views=[(64, 16, 0, c.dice.choice((0x20, 0x1c, 1)), 0, 0, 0, 0, 0)])
    c.say("surface_create", texture=new(c, "texture"), array=array)
    if chance(c, 0.7):
        c.say("texture_destroy")


def scene_mipmaps(c):
    mipmap = any_array(c, levels=3, flags=c.dice.choice((0, 2)))
    if mipmap is None:
        return
    level = new(c, "array")
    c.say("array_level", array=level, mipmap=mipmap, level=c.dice.choice((0, 1, 2, 3)))
    textures(c, level)
    textures(c, mipmap)
    if chance(c, 0.5):
        c.say("array_destroy", array=mipmap)
        c.say("copy_array", array=level, is_out=0, x=0, y=0, z=0, width=4, height=1, depth=1)


def scene_linear_textures(c):
    at = some_memory(c, 1 << 20)
    rows = c.dice.choice((0, 16))
    c.say("texture_linear", texture=new(c, "texture"), device=0, address=at, format=FLOAT,
          channels=1, width=64, height=rows, pitch=512 if rows else 0, size=0 if rows else 4096,
          samplers=[SAMPLER])
    c.say("texture_linear_max", device=0, format=FLOAT, channels=c.dice.choice((1, 2, 4)))
    # Two dimensions of 32-bit floats, as cuTensorMapEncodeTiled() has them.
    said = c.say("tensor_map", kind=c.dice.choice((0, 0, 1, 2)), type=7, rank=2, address=at,
                 dims=(64, 64, 0, 0, 0), strides=(256, 0, 0, 0), box=(16, 16, 0, 0, 0),
                 element_strides=(1, 1, 0, 0, 0), interleave=0, swizzle=0, promotion=0, fill=0)
    if said:
        c.say("tensor_map_move", map=said["map"], address=at)


# ---- memory and events of other sessions


def scene_share(c):
    at = some_memory(c, c.dice.choice((4096, 2 << 20)))
    c.say("ipc_memory_export", address=at, size=c.dice.choice((4096, 2 << 20)))
    if chance(c, 0.4):
        c.say("ipc_memory_end", address=at)
    if chance(c, 0.3):
        c.say("memory_free", address=at)
    event = new(c, "event")
    c.say("event_create", event=event, flags=2)
    c.say("ipc_event_export", event=event, device=0)
    c.say("event_record", event=event, stream=stream(c), seqno=1)


def scene_open(c):
    """Opens memory and events that another session has shared."""
    opened = c.say("ipc_memory_open")
    if opened:
        use(c, opened["address"])
        if chance(c, 0.7):
            c.say("ipc_memory_close", address=opened["address"])
    event = new(c, "event")
    if c.say("ipc_event_open", event=event):
        c.say("event_wait", stream=stream(c), event=event)
        c.say("event_record", event=event, stream=stream(c), seqno=2)
        c.say("ipc_event_query", event=event)
        if chance(c, 0.5):
            c.say("event_destroy", event=event)
