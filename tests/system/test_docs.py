#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# without sanitizers: it reads text
"""README.md and docs: short pages, short cells, links that lead somewhere, texts that exist."""

import glob
import os
import re
import subprocess

import harness
from harness import equal

WORDS_MAX = 4000  # of a page, as `wc -w' counts; the diary in docs/lab may be longer
CELL_WORDS_MAX = 25
LINK = re.compile(r"\]\(([^)\s]+)\)")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def pages(root=harness.ROOT):
    return [root + "/README.md"] + sorted(glob.glob(root + "/docs/**/*.md", recursive=True))


def name(path):
    return os.path.relpath(path, harness.ROOT)


def prose(path):
    """The lines of a page outside fences."""
    fenced = False
    for line in read(path).splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield line


def anchors(path):
    """As GitHub names the headings of a page."""
    for line in prose(path):
        if re.match("#+ ", line):
            title = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip())
            yield re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def links(path):
    """(file, anchor) of each relative link of a page."""
    text = re.sub(r"`[^`\n]*`", "", "\n".join(prose(path)))
    for target in LINK.findall(text):
        if not re.match(r"\w+:", target):
            there, _, anchor = target.partition("#")
            yield os.path.normpath(os.path.join(os.path.dirname(path), there)) if there else path, anchor


def test_readme():
    """It is one screen and a half, and its figures are those of docs/performance.md."""
    n_lines = read(harness.ROOT + "/README.md").count("\n")
    assert n_lines <= 130, "README.md has %d lines" % n_lines
    done = subprocess.run([harness.ROOT + "/tests/pictures/figures", "--check"], capture_output=True,
                          text=True, check=False)
    equal((done.returncode, done.stderr), (0, ""))


def dead_links(root):
    """Of README.md and docs in a folder, which may be an installed one."""
    inside = [os.path.join(root, part) for part in ("README.md", "LICENSE", "docs")]
    dead = []
    for path in pages(root):
        for there, anchor in links(path):
            is_inside = any(there == part or there.startswith(part + "/") for part in inside)
            if not is_inside or not os.path.exists(there) or anchor and anchor not in anchors(there):
                dead.append("%s: %s#%s" % (path, there, anchor))
    return dead


def test_pages_are_short():
    long = {name(path): len(read(path).split()) for path in pages()
            if not name(path).startswith("docs/lab/")}
    equal({path: n for path, n in long.items() if n > WORDS_MAX}, {})


def cells(path):
    """The cells of all tables of a page."""
    for line in prose(path):
        if line.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1]):
                yield cell.strip()


def test_cells_are_short():
    equal([(name(path), cell) for path in pages() for cell in cells(path)
           if len(cell.split()) > CELL_WORDS_MAX], [])


def test_the_product_has_a_name():
    """A column of the service is not called `here' or `ours'."""
    equal([name(path) for path in pages() for cell in cells(path) if cell in ("here", "ours")], [])


def test_no_dead_link():
    equal(dead_links(harness.ROOT), [])


def test_pictures():
    """Each is on a page, and calls the service and NVIDIA's by the names of README's tables."""
    shown = {there for path in pages() for there, _ in links(path)}
    for path in glob.glob(harness.ROOT + "/docs/**/*.svg", recursive=True):
        assert path in shown, name(path) + " is on no page"
        words = {text.strip() for text in re.findall(r"<text[^>]*>([^<]*)<", read(path))}
        equal(words & {"ours", "vendor", "here", "the service", "MPS"}, set(), name(path))


def test_each_page_is_reachable():
    found, left = set(), [harness.ROOT + "/README.md"]
    while left:
        path = left.pop()
        if path not in found and path.endswith(".md"):
            found.add(path)
            left += [there for there, _ in links(path)]
    equal(sorted(map(name, set(pages()) - found)), [])


# ---- texts of programs

def literal(text):
    """The strings of a piece of C, each with those that directly follow it."""
    for run in re.findall(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', text):
        yield "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', run))


def literals():
    """The strings of the C sources; a variable part is `…'."""
    for folder in "client", "daemon", "server", "proto", "include":
        for path in glob.glob("%s/%s/**/*.[ch]" % (harness.ROOT, folder), recursive=True):
            for text in literal(read(path)):
                text = text.replace(r"\"", '"').replace(r"\n", " ")
                yield re.sub(r"%[-+ #0-9.*]*(?:l|ll|z|h)*[a-zA-Z]", "…", text)


def test_quoted_texts_exist():
    """docs/troubleshooting.md: a fenced block of `text' has lines of programs, one sentence each."""
    page = read(harness.ROOT + "/docs/troubleshooting.md")
    quoted = [line.strip() for block in re.findall(r"^```text\n(.*?)^```$", page, re.M | re.S)
              for line in block.splitlines()]
    assert len(quoted) > 20, quoted
    known = " ".join(literals())
    equal([line for line in quoted if line not in known], [])


def test_files_in_code_exist():
    """A file of the source that a command names, as seen from its root."""
    unknown = []
    for path in pages():
        for line in re.findall(r"^    .+$", read(path), re.M):
            words = re.findall(r"(?<![\w/.-])(?:docs|tests|daemon)/[\w./-]*\w", line)
            unknown += [(name(path), word) for word in words
                        if not os.path.exists(harness.ROOT + "/" + word)]
    equal(unknown, [])


def test_commands_exist():
    """Each command of mps-control in code is one of the daemon or of the front end."""
    known = set(re.findall(r'^\t\{"([\w-]+)(?: [a-z]+)?",\s*"', read(harness.ROOT + "/daemon/command/command.c"), re.M))
    for path in glob.glob(harness.ROOT + "/daemon/**/*.c", recursive=True):
        known |= set(re.findall(r'is_command\(options, "([\w-]+)"\)', read(path)))
    assert len(known) > 30, known
    unknown = []
    for path in pages():
        for code in re.findall(r"`[^`\n]+`|^    .+$", read(path), re.M):
            unknown += [(name(path), word) for word in re.findall(r"mps-control ([a-z][\w-]*)", code)
                        if word not in known]
    equal(unknown, [])


# ---- why a client cannot move

GIVES_REASONS = re.compile(r"(obstacle|stays?|stays_with|reason_of|look)$")


def reasons():
    """All strings that tell why: of the functions that return them, and of those that take them."""
    texts = [read(path) for path in glob.glob(harness.ROOT + "/server/**/*.[ch]", recursive=True)]
    source = "\n".join(texts)
    parts = set(re.findall(r"\.(?:obstacle|stays) = (\w+)", source))
    bodies = [body for name, body in re.findall(r"^(?:static )?const char \*(\w+)\([^;{]*\)\n\{(.*?)^\}",
                                                source, re.M | re.S)
              if name in parts or GIVES_REASONS.search(name)]
    assert len(bodies) > len(parts) > 5, (bodies, parts)
    bodies += re.findall(r"\b(?:record_give_up|library_set_reason)\(([^;{]*)\);", source)
    code = re.sub(r"\b[A-Z_]{4,}\b(?! \()", lambda word: macro(source, word.group()), "\n".join(bodies))
    return {text for text in literal(code) if " " in text}


def macro(source, name):
    """The string that a macro of the server stands for; its name, if it is none."""
    value = re.search(r'^#define %s (".*")$' % name, source, re.M)
    return value.group(1) if value else {"MAY_STAY_TEXT": '"it may "'}.get(name, name)


def told():
    """The reasons in the table of docs/reliability.md, and how others begin."""
    page = read(harness.ROOT + "/docs/reliability.md")
    table = page.split("| reason | why |")[1].split("\n\n")[0]
    cells_of = [line.split("|")[1] for line in table.splitlines()[2:]]
    begins = set(re.findall(r"begin with `([^`]+)`", table))
    return {text for cell in cells_of for text in re.findall(r"`([^`]+)`", cell)} - begins, begins


def test_reasons_to_stay():
    """Each is in the table, and in a unit test, which makes a session that stays for it."""
    found = reasons()
    listed, begins = told()
    assert len(found) > 25, found
    equal(sorted(listed - found), [], "(in the table only)")
    equal(sorted(text for text in found - listed if not text.startswith(tuple(begins))), [],
          "(not in docs/reliability.md)")
    tests = "\n".join(text for path in glob.glob(harness.ROOT + "/tests/unit/server/*.c")
                      for text in literal(read(path)))
    equal(sorted(text for text in found if text not in tests), [],
          "(no row in tests/unit/server/test_obstacles.c)")


if __name__ == "__main__":
    harness.main(globals())
