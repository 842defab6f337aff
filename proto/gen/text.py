# SPDX-License-Identifier: Apache-2.0
"""Text of generated files: their opening, wrapped lists, writing what changed."""

import os

WIDTH = 100
TAB = 8


def banner(what, guard=None):
    """The opening of a generated C file."""
    lines = ["/* SPDX-License-Identifier: Apache-2.0 */"]
    if guard:
        lines += [f"#ifndef {guard}", f"#define {guard}", ""]
    else:
        lines.append("")
    lines += ["/*"] + [" * " + line if line else " *" for line in what.splitlines()]
    lines += [" *", " * Made from proto/cuda.spec by proto/gen.py.", " */"]
    return "\n".join(lines) + "\n"


def columns(line):
    return len(line) + (TAB - 1) * line.count("\t")


def wrapped(opening, items, closing, indent=0, joint=","):
    """`opening' item, item, … `closing', broken at WIDTH as clang-format breaks it."""
    tab = "\t" * indent
    whole = (joint + " ").join(items) + closing
    if columns(tab + opening + whole) <= WIDTH:
        return tab + opening + whole
    target, _, call = opening.rpartition(" = ")
    if target and not opening.endswith("{") and columns(tab + "\t" + call + whole) <= WIDTH:
        return f"{tab}{target} =\n{tab}\t{call}{whole}"
    if columns(tab + "\t" + whole) <= WIDTH:
        return f"{tab}{opening}\n{tab}\t{whole}"
    return filled(tab, opening, items, closing, joint)


def quoted(opening, pieces, closing, indent=0):
    """`opening' "pieces" `closing': one string, between pieces broken as clang-format breaks it."""
    start = "\t" * indent + opening
    at = columns(start)
    strings = [""]
    for piece in pieces:
        if at + len(strings[-1] + piece + closing) + 2 > WIDTH:
            strings.append("")
        strings[-1] += piece
    space = "\n" + "\t" * (at // TAB) + " " * (at % TAB)
    return start + space.join(f'"{string}"' for string in strings) + closing


def filled(tab, opening, items, closing, joint):
    line, lines = tab + opening, []
    for i, item in enumerate(items):
        piece = item + (closing if i == len(items) - 1 else joint)
        space = "" if i == 0 else " "
        if columns(line + space + piece) <= WIDTH:
            line += space + piece
        else:
            lines.append(line)
            line = tab + "\t" + piece
    return "\n".join(lines + [line])


def write(path, text):
    """Writes a file unless it has this content already, so that make sees no new time."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except FileNotFoundError:
        pass
    new = path + ".new"
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(new, path)
