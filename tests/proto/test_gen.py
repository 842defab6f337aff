#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The generator: it writes golden/ for small.spec, and refuses broken specs with their line.

    tests/proto/test_gen.py            runs the tests
    tests/proto/test_gen.py --accept   updates golden/: review the difference
"""

import filecmp
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
GEN = os.path.join(ROOT, "proto", "gen.py")
sys.path.insert(0, os.path.dirname(GEN))

from gen import moved  # noqa: E402

HEADERS = os.path.join(HERE, "headers")
GOLDEN = os.path.join(HERE, "golden")
SMALL = os.path.join(HERE, "small.spec")


def generate(spec, out, headers=HEADERS):
    return subprocess.run([sys.executable, GEN, "--spec", spec, "--headers", headers, "--out", out],
                          capture_output=True, text=True, timeout=60, check=False)


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


class Generated(unittest.TestCase):
    """Each test has a separate folder."""

    def setUp(self):
        self.out = tempfile.mkdtemp(prefix="gen-")
        self.addCleanup(shutil.rmtree, self.out)

    def spec(self, text):
        path = os.path.join(self.out, "changed.spec")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def hash_of(self, text):
        done = generate(self.spec(text), self.out)
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.search(r"0x[0-9a-f]{16}", read(self.out, "spec_hash.h")).group(0)


class Golden(Generated):
    def test_golden(self):
        done = generate(SMALL, self.out)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(os.listdir(self.out)), sorted(os.listdir(GOLDEN)))
        for name in sorted(os.listdir(GOLDEN)):
            with self.subTest(name):
                self.assertEqual(read(self.out, name), read(GOLDEN, name))

    def test_gives(self):
        line = "call cuThingRun local needs context handle stream hStream"
        text = read(SMALL)
        self.assertIn(line + "\n", text)
        done = generate(self.spec(text.replace(line, line + " gives args: hStream")), self.out)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        stubs = read(self.out, "stubs.c")
        self.assertIn("\t*args = found4;\n\treturn CUDA_SUCCESS;\n", stubs)
        self.assertNotIn("local_cuThingRun", stubs + read(self.out, "calls_thing.h"))

    def test_refuses(self):
        line = "call cuThingCreate_v2 local needs server nonnull pThing,name"
        text = read(SMALL).replace(
            line, line + " refuses (name[0] == 0) refuses (!name[1]) as NOT_READY does poke(name)")
        done = generate(self.spec(text), self.out)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("\tif (!pThing || !name || name[0] == 0)\n"
                      "\t\treturn CUDA_ERROR_INVALID_VALUE;\n"
                      "\tif (!name[1])\n\t\treturn CUDA_ERROR_NOT_READY;\n"
                      "\tpoke(name);\n\treturn CUDA_SUCCESS;\n", read(self.out, "stubs.c"))

    def test_format(self):
        tool = shutil.which("clang-format")
        if not tool:
            self.skipTest("no clang-format here")
        shutil.copy(os.path.join(ROOT, ".clang-format"), self.out)
        generate(SMALL, self.out)
        for name in sorted(os.listdir(self.out)):
            if not name.endswith((".c", ".h")) or name == "symbols.h":
                continue
            with self.subTest(name):
                text = read(self.out, name)
                shown = subprocess.run([tool, os.path.join(self.out, name)], capture_output=True,
                                       text=True, check=True).stdout
                self.assertEqual(shown, text)

    def test_rules(self):
        """The rule tests of small.spec, which has types and rules that the real spec does not use."""
        program = os.path.join(self.out, "test_rules")
        sources = [os.path.join(ROOT, "tests", "unit", "proto", "test_wire.c")]
        made = ("test_rules.c", "send.c", "dispatch.c", "wire.c")
        sources += [os.path.join(GOLDEN, name) for name in made]
        folders = [GOLDEN, ROOT]
        command = [os.environ.get("CC", "cc"), "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra",
                   "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Wvla", "-Werror",
                   "-iquote", os.path.join(ROOT, "include"), "-isystem", cuda_headers()]
        command += ["-I" + folder for folder in folders] + sources + ["-o", program]
        subprocess.run(command, check=True)
        done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"\d\d+ passed, 0 failed\n$")

    def test_unchanged_files_stay(self):
        generate(SMALL, self.out)
        before = {n: os.stat(os.path.join(self.out, n)).st_mtime_ns for n in os.listdir(self.out)}
        path = os.path.join(self.out, "wire.h")
        with open(path, "a", encoding="utf-8") as file:
            file.write("/* spoilt */\n")
        time.sleep(0.02)
        generate(SMALL, self.out)
        after = {n: os.stat(os.path.join(self.out, n)).st_mtime_ns for n in os.listdir(self.out)}
        self.assertEqual([n for n in before if before[n] != after[n]], ["wire.h"])
        self.assertTrue(filecmp.cmp(path, os.path.join(GOLDEN, "wire.h"), shallow=False))


class Hash(Generated):
    """Which changes of a spec change its hash, so that two builds refuse each other."""

    def setUp(self):
        super().setUp()
        self.text = read(SMALL)
        self.hash = self.hash_of(self.text)

    def test_same(self):
        same = [self.text + "\n# a comment\n",
                self.text.replace("\tin  u8  small", "\tin u8 small # x"),
                self.text.replace("call cuThingName refused \"a thing has no name here\"\n", "")]
        for text in same:
            self.assertNotEqual(text, self.text)
            self.assertEqual(self.hash_of(text), self.hash)

    def test_other(self):
        other = [("max THINGS_MAX - 1", "max THINGS_MAX - 2"), ("1 << 4", "1 << 5"),
                 ("= 0x0101 async", "= 0x0103 async"), ("= 0x0101 async", "= 0x0101 sync"),
                 ("u64 large", "u64 larger"), ("u16 left", "u16 lefter"), ("= LEFT RIGHT", "= RIGHT LEFT"),
                 ("\tin  i64 wide\n", "")]
        for old, new in other:
            with self.subTest(new):
                self.assertIn(old, self.text)
                self.assertNotEqual(self.hash_of(self.text.replace(old, new, 1)), self.hash)


class Moved(unittest.TestCase):
    """Which changes of the server change the hash of what it sends to its successor."""

    def setUp(self):
        self.sources = moved.read_sources(os.path.join(ROOT, "server"))
        self.text = moved.moved_text(self.sources)

    def is_changed(self, path, old, new):
        self.assertIn(old, self.sources[path])
        sources = {**self.sources, path: self.sources[path].replace(old, new, 1)}
        return moved.moved_text(sources) != self.text

    def test_format(self):
        other = [("session/session_move.c", "uint32_t n_refusals;", "uint64_t n_refusals;"),
                 ("session/session_move.c", "uint32_t head, n_held;", "uint32_t n_held, head;"),
                 ("memory/virtual_move.c", "\tRELEASED = 1,", "\tRELEASED = 2,"),
                 ("memory/host.c", "\tpack_put_number(pack, region->arena.size);\n", ""),
                 ("memory/ipc.c", "pack_put_number(pack, address);", "pack_put_number(pack, size);"),
                 ("module/constants.c", "NOTE_SIZE = 2", "NOTE_SIZE = 3"),
                 ("util/token.h", "words[2]", "words[4]"),
                 ("share/arena.h", "#define ARENA_ALIGN ", "#define ARENA_ALIGN 2 * "),
                 ("record/record_file.h", "uint16_t op;", "uint32_t op;"),
                 ("rooms.c", "&host_part,\n\t&aliases_part,", "&aliases_part,\n\t&host_part,")]
        for path, old, new in other:
            with self.subTest(old):
                self.assertTrue(self.is_changed(path, old, new))

    def test_other_code(self):
        same = [("session/session_move.c", "/* The fixed-size state", "/* The state"),
                ("session/session_move.c", "uint32_t dropped_to;\n", "uint32_t dropped_to; /* a position */\n\n"),
                ("memory/ipc.c", "static bool ipc_is_open(", "static bool ipc_is_opened("),
                ("memory/alias.h", "alias_has(", "alias_has_all("),
                ("copy/fill.c", "#include", "#define FILL 1\n#include")]
        for path, old, new in same:
            with self.subTest(old):
                self.assertFalse(self.is_changed(path, old, new))


class Broken(Generated):
    """The first line of broken/*.spec has the error that the generator must print."""

    def test_broken(self):
        names = sorted(os.listdir(os.path.join(HERE, "broken")))
        self.assertGreater(len(names), 30)
        for name in names:
            with self.subTest(name):
                path = os.path.join(HERE, "broken", name)
                want = read(path).split("\n", 1)[0]
                self.assertTrue(want.startswith("# want: "), want)
                done = generate(path, self.out)
                self.assertEqual(done.stderr.strip(), f"{name}:{want[len('# want: '):]}")
                self.assertEqual(done.returncode, 1)
                self.assertEqual(os.listdir(self.out), [])

    def test_no_headers(self):
        done = generate(SMALL, self.out, self.out)
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no cuda.h", done.stderr)

    def test_no_spec(self):
        done = generate(os.path.join(self.out, "none.spec"), self.out)
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.spec", done.stderr)


class Real(Generated):
    """The spec of this project."""

    def test_real(self):
        begin = time.monotonic()
        done = generate(os.path.join(ROOT, "proto", "cuda.spec"), self.out, cuda_headers())
        took = time.monotonic() - begin
        self.assertEqual(done.returncode, 0, done.stderr)
        print(f"the whole spec in {took:.2f} s")
        self.assertIn(" of 637 symbols served", read(self.out, "coverage.md").split("\n", 1)[0])
        self.assertEqual(re.findall(r"^.*\bnot yet\b.*$", read(self.out, "coverage.md"), re.M), [],
                         "cuda.spec has no line for these symbols of the headers")
        symbols = re.findall(r"^SYMBOL\((\w+)\)$", read(self.out, "symbols.h"), re.M)
        table = set(re.findall(r"\d+:(\w+)", read(HERE, "proc-addresses-580.tsv")))
        self.assertEqual(len(symbols), len(set(symbols)))
        self.assertEqual(set(symbols), table)


def cuda_headers():
    """The folder in which the Makefile finds them."""
    told = subprocess.run([os.path.join(ROOT, "tests", "setup"), "--cuda"], capture_output=True,
                          text=True, check=False).stdout.strip()
    for folder in (told, os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"):
        if folder and os.path.exists(os.path.join(folder, "include", "cuda.h")):
            return os.path.join(folder, "include")
    return "/usr/local/cuda/include"


def main():
    if "--accept" in sys.argv:
        shutil.rmtree(GOLDEN, ignore_errors=True)
        return generate(SMALL, GOLDEN).returncode
    result = unittest.main(exit=False, argv=sys.argv[:1]).result
    failed = len(result.failures) + len(result.errors)
    print(f"{max(result.testsRun - failed, 0)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
