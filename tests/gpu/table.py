# SPDX-License-Identifier: Apache-2.0
"""The table that a run on a GPU fills and prints at its end, and the folder $OUT for logs."""

import os

OUT = os.environ.get("OUT")
ROWS = []  # (name, number or text, expected value, True/False/None)
MARKS = {True: "ok", False: "MISSED", None: ""}


def row(what, value, wanted="", good=None):
    ROWS.append((what, value, wanted, good))
    print("    %-52s %14s  %-18s %s" % (what, value, wanted, MARKS[good]), flush=True)


def show(text):
    """Output of a program or a command, indented."""
    print("".join("      %s\n" % line for line in text.splitlines()), end="", flush=True)


def need(what, good, detail=""):
    """A row that is right or wrong."""
    row(what, "yes" if good else "NO", "yes", bool(good))
    assert good, "%s: %s" % (what, detail)


def keep(name, text, how="w"):
    """A file in $OUT, if it is set."""
    if OUT:
        with open(os.path.join(OUT, name), how, encoding="utf-8") as file:
            file.write(text + "\n")


def save(service, name):
    """Keeps a service's logs in $OUT."""
    keep(name + ".txt", "".join("==== %s\n%s" % (log, service.read(log)) for log in (
        "log/control.log", "log/server.log", "daemon.out")))


def finish():
    """Prints the table and the last line; returns how many rows are wrong."""
    lines = ["%-54s %16s  %-24s %s" % ("what", "measured", "wanted, or range", "")]
    for what, value, wanted, good in ROWS:
        lines.append("%-54s %16s  %-24s %s" % (what, value, wanted, MARKS[good]))
    text = "\n".join(lines)
    print("\n" + text)
    keep("table.txt", text)
    failed = sum(1 for r in ROWS if r[3] is False)
    print("%d passed, %d failed" % (sum(1 for r in ROWS if r[3] is True), failed))
    return failed
