# SPDX-License-Identifier: Apache-2.0
"""Images of code: PTX, images that nvcc has made of tests/programs, and broken images.

A kernel of QUIET ends soon and accesses only its own variables, whatever its
parameters are, so that any launch of it is harmless. A kernel of LOUD faults, or
never ends.
"""

import functools
import glob
import os
import struct

import harness

FATBIN_MAGIC = 0xba55ed50
# Larger images take too long to unpack and interpret.
IMAGE_MAX = 64 << 10
# The most rounds of h_spin's loop.
SPIN_MASK = 0xfff

HEAD = """.version 8.0
.target %s
.address_size 64
"""
QUIET_TEXT = """
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.visible .global .align 8 .b8 h_words[64];
.visible .const .align 4 .u32 h_constant[4];
.global .align 1 .b8 h_text[8] = {104, 105, 32, 37, 117, 10, 0, 0};
.extern .shared .align 16 .b8 h_room[];
.visible .entry h_empty()
{ ret; }
.visible .entry h_many(.param .u64 a, .param .u32 b, .param .u8 c, .param .align 8 .b8 d[24])
{ ret; }
.visible .entry h_count(.param .u64 a)
{ .reg .u32 %%r<3>; .reg .u64 %%d<2>; mov.u64 %%d1, h_words;
  atom.global.add.u32 %%r1, [%%d1], 1; ret; }
.visible .entry h_spin(.param .u32 n)
{ .reg .u32 %%r<3>; .reg .pred %%p<2>; ld.param.u32 %%r1, [n]; and.b32 %%r1, %%r1, %(mask)d;
LOOP: setp.eq.u32 %%p1, %%r1, 0; @%%p1 bra DONE; sub.u32 %%r1, %%r1, 1; bra LOOP;
DONE: ret; }
.visible .entry h_local(.param .u64 a)
{ .local .align 8 .b8 room[3000]; .reg .u32 %%r<3>; .reg .u64 %%d<3>;
  mov.u64 %%d1, room; mov.u32 %%r1, 5; st.local.u32 [%%d1], %%r1; ret; }
.visible .entry h_shared()
{ .shared .align 8 .b8 room[256]; .reg .u32 %%r<3>; mov.u32 %%r1, 3;
  st.shared.u32 [room], %%r1; bar.sync 0; ret; }
.visible .entry h_cluster() .explicitcluster .reqnctapercluster 2, 1, 1
{ ret; }
.visible .entry h_print(.param .u32 n)
{ .local .align 8 .b8 args[8]; .reg .u32 %%r<3>; .reg .u64 %%d<4>;
  ld.param.u32 %%r1, [n]; mov.u64 %%d1, args; cvta.local.u64 %%d2, %%d1; st.local.u32 [%%d1], %%r1;
  mov.u64 %%d3, h_text; cvta.global.u64 %%d3, %%d3;
  { .param .b64 f; st.param.b64 [f], %%d3; .param .b64 a; st.param.b64 [a], %%d2;
    .param .b32 r; call.uni (r), vprintf, (f, a); ld.param.b32 %%r2, [r]; }
  ret; }
""" % {"mask": SPIN_MASK}
MANAGED_TEXT = """
.visible .global .attribute(.managed) .align 4 .u32 h_managed = 7;
.visible .global .attribute(.managed) .align 8 .b8 h_table[4096];
.visible .entry h_touch()
{ .reg .u32 %r<3>; .reg .u64 %d<2>; mov.u64 %d1, h_managed; ld.global.u32 %r1, [%d1];
  add.u32 %r1, %r1, 1; st.global.u32 [%d1], %r1; ret; }
"""
LOUD_TEXT = """
.visible .entry h_store(.param .u64 a, .param .u32 v)
{ .reg .u32 %r<2>; .reg .u64 %d<2>; ld.param.u64 %d1, [a]; ld.param.u32 %r1, [v];
  st.global.u32 [%d1], %r1; ret; }
.visible .entry h_trap()
{ trap; }
.visible .entry h_endless(.param .u32 n)
{ .reg .u32 %r<2>; .reg .pred %p<2>;
LOOP: add.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra LOOP; bra LOOP; }
.visible .entry h_misaligned()
{ .reg .u32 %r<2>; .reg .u64 %d<2>; mov.u64 %d1, 3; ld.global.u32 %r1, [%d1]; ret; }
"""
# For a linker: CALLER calls a function of CALLEE.
CALLER_TEXT = """
.extern .func h_callee;
.visible .entry h_caller()
{ call.uni h_callee; ret; }
"""
CALLEE_TEXT = """
.visible .func h_callee
{ ret; }
"""


def ptx(*texts, target="sm_90"):
    return (HEAD % target + "".join(texts)).encode() + b"\0"


QUIET = ptx(QUIET_TEXT)
QUIET_KERNELS = (b"h_empty", b"h_many", b"h_count", b"h_spin", b"h_local", b"h_shared",
                 b"h_cluster", b"h_print")
QUIET_GLOBALS = (b"h_words", b"h_constant", b"h_text")
MANAGED = ptx(MANAGED_TEXT)
MANAGED_GLOBALS = (b"h_managed", b"h_table")
LOUD = ptx(LOUD_TEXT)
LOUD_KERNELS = (b"h_store", b"h_trap", b"h_endless", b"h_misaligned")
CALLER, CALLEE = ptx(CALLER_TEXT), ptx(CALLEE_TEXT)
BROKEN = (b"\0", b"no code at all\0", ptx(".visible .entry h_bad() { nonsense; }"),
          ptx(QUIET_TEXT, target="sm_999"), ptx(QUIET_TEXT)[:-40] + b"\0")


# ---- images that nvcc has made


def section(data, wanted):
    """The bytes of a section of an ELF file; b"" if there is no such section."""
    if data[:4] != b"\x7fELF":
        return b""
    at, = struct.unpack_from("<Q", data, 40)
    size, n, names = struct.unpack_from("<HHH", data, 58)
    heads = [struct.unpack_from("<IIQQQQ", data, at + i * size) for i in range(n)]
    text = data[heads[names][4]:heads[names][4] + heads[names][5]]
    for name, _, _, _, offset, length in heads:
        if text[name:].split(b"\0", 1)[0] == wanted:
            return data[offset:offset + length]
    return b""


def fatbins(words):
    """The fatbins in a row of them."""
    found, at = [], 0
    while at + 16 <= len(words):
        magic, _, head, size = struct.unpack_from("<IHHQ", words, at)
        if magic != FATBIN_MAGIC:
            break
        found.append(words[at:at + head + size])
        at = (at + head + size + 7) // 8 * 8
    return found


@functools.cache
def made():
    """Images of the example programs: each fatbin, and each row of fatbins as a whole."""
    found = []
    for path in sorted(glob.glob(os.path.join(harness.BUILD, "bin", "examples", "*"))):
        with open(path, "rb") as file:
            words = section(file.read(), b".nv_fatbin")
        found += [one for one in fatbins(words) if len(one) <= IMAGE_MAX]
        if 0 < len(words) <= IMAGE_MAX:
            found.append(words)
    return sorted(set(found))


@functools.cache
def managed():
    """Images of programs with variables of __managed__."""
    found = [MANAGED]
    for path in sorted(glob.glob(os.path.join(harness.BUILD, "bin", "examples", "managed_*"))):
        with open(path, "rb") as file:
            words = section(file.read(), b".nv_fatbin")
        found += fatbins(words)[-1:] + ([words] if words else [])
    return found


# ---- broken on purpose


def twisted(dice, words):
    """The image with changed bits, or without its end."""
    words = bytearray(words)
    for _ in range(dice.randrange(1, 5)):
        at = dice.randrange(min(len(words), dice.choice((64, len(words)))))
        words[at] ^= 1 << dice.randrange(8)
    if dice.random() < 0.3:
        del words[dice.randrange(1, len(words) + 1):]
    return bytes(words)


def small_fatbin(dice):
    """A fatbin with a wrong size and random contents."""
    head = struct.pack("<IHHQ", FATBIN_MAGIC, 1, dice.choice((16, 0, 17, 65535)),
                       dice.choice((0, 48, 384, 1 << 32, 1 << 63, (1 << 64) - 16)))
    return head + dice.randbytes(400) + b"\0"


def small_elf(dice):
    """A 64-bit ELF file with random contents."""
    return b"\x7fELF\2\1\1" + dice.randbytes(dice.choice((20, 57, 200))) + b"\0"


def any_image(dice, may_harm):
    """A random image, mostly a valid one. With `may_harm' its kernels may do anything."""
    which = dice.random()
    if which < 0.5:
        return QUIET
    if which < 0.6:
        return dice.choice(managed())
    if which < 0.75:
        return dice.choice(made())
    if which < 0.8:
        return LOUD if may_harm else MANAGED
    if which < 0.85:
        return dice.choice(BROKEN)
    if which < 0.92:
        # A changed kernel of QUIET might do harm.
        return twisted(dice, dice.choice((QUIET if may_harm else MANAGED, dice.choice(made()))))
    return dice.choice((small_fatbin, small_elf))(dice)
