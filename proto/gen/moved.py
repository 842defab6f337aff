# SPDX-License-Identifier: Apache-2.0
"""The format of what a server sends to its successor (server/util/pack.h), as text.

No description of the format exists besides the code that writes and reads it. The text has each
function that puts something into a pack or takes it out, or makes a note, and what these functions
rely on: structs, enums and constants of their files, constants of headers, and the order of the
parts of a session. Comments and the layout of lines do not count.
"""

import pathlib
import re

MOVES = re.compile(r"\b(pack_(put|get)|record_notes_add)")
ALSO = ("rooms.c", "util/token.h", "record/record_file.h", "record/record_notes.h")
DEFINES = ("struct ", "enum ", "#define ", "const struct session_part *const ")


def read_sources(folder):
    """Text of each file of the server by its path in that folder."""
    paths = sorted(path for path in pathlib.Path(folder).rglob("*.[ch]"))
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def items(text):
    """Functions, types and tables, which begin in the first column behind an empty line."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return [item.strip() for item in re.split(r"\n\s*\n(?=\S)", text)]


def moved_text(sources):
    files = [text for path, text in sources.items()
             if path in ALSO or path.endswith(".c") and MOVES.search(text)]
    kept = [" ".join(item.split()) for text in files for item in items(text)
            if MOVES.search(item) or item.startswith(DEFINES)]
    headers = "\n".join(text for path, text in sources.items() if path.endswith(".h"))
    known = dict(re.findall(r"^#define (\w+) (.+)$", headers, re.M))
    named = sorted(set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", "\n".join(kept))))
    return "\n".join(kept + [f"{name} {known[name]}" for name in named if name in known])
