# SPDX-License-Identifier: Apache-2.0
"""The daemon's commands, read from its table, and lines for them: valid, wrong and nonsense."""

import glob
import os
import re

import harness

# struct command in daemon/command*.c: the name and the usage.
ROW = re.compile(r'^\t\{"(\w+)",\s*"([^"]*)"', re.M)
# Those of protocol 3: a module and a verb. A name behind the usage is a macro with further options.
MODULE_ROW = re.compile(r'^\t\{"([a-z-]+ [a-z]+)",\s*"([^"]*)"(?: (\w+))?', re.M)
NONSENSE = ("x", "-1", "0", "1", "999999", "4294967295", "4294967296", "1.5", "1T", "100%", "-f",
            "--json", "-group", "-t", "GPU-", "0000:00:00.0", "%s%n", "A" * 60)
# By word of the usage; other words are literal.
VALUES = {
    "UID": ("0", "1000", "12345"), "SECONDS": ("0", "1"), "PERCENTAGE": ("50", "12.5", "100", "0"),
    "DEVICE": ("0", "1", "GPU-"), "SIZE": ("1G", "64M", "none"), "PRIORITY": ("0", "1", "2", "7"),
    "CHUNKS": ("1", "2", "99"), "ID": ("x", "AAAA"), "NAME": ("a", "b", "team/a"), "SERVER": ("pool", "none"),
    "FIELD": ("name", "server", "pid"), "FORMAT": ("csv", "table"), "OPTION": ("-priority 1",
                                                                   "-active_thread_percentage 50"),
}


def table():
    """name -> usage, from the daemon's source."""
    found = {}
    for path in sorted(glob.glob(os.path.join(harness.ROOT, "daemon", "command", "*.c"))):
        with open(path, encoding="utf-8") as file:
            found.update(ROW.findall(file.read()))
    assert "get_server_list" in found, "the table of commands is not where it was"
    return found


def module_table():
    """The same of the commands of protocol 3, without those that end servers or clients, or give
    programs servers of their own."""
    with open(os.path.join(harness.ROOT, "daemon", "module", "modules.h"), encoding="utf-8") as file:
        macros = {name: "".join(re.findall('"([^"]*)"', text)) for name, text in
                  re.findall(r"^#define (\w+)\s((?:[^\n]*\\\n)*[^\n]*)", file.read(), re.M)}
    with open(os.path.join(harness.ROOT, "daemon", "command", "command.c"), encoding="utf-8") as file:
        found = {name: usage + macros.get(macro, "")
                 for name, usage, macro in MODULE_ROW.findall(file.read())}
    assert "namespace set" in found and "--client-priority" in found["namespace set"], found
    return {name: usage for name, usage in found.items()
            if name.split()[1] not in ("create", "delete", "terminate") and name != "context-share set"}


def word_of(dice, word, known):
    """A value for a word of the usage. `known' has further values by word, such as PIDs."""
    if dice.random() < 0.1:
        return dice.choice(NONSENSE)
    if word.strip("[]").startswith("--") and "=" in word:
        key, _, value = word.strip("[]").partition("=")
        return key + "=" + word_of(dice, value, known)
    choices = [one for one in word.strip("[].").split("|") if one]
    word = dice.choice(choices) if choices else word
    if word.endswith("PID") or word == "CLIENT":
        return dice.choice(tuple(known.get(word) or known.get("PID") or ()) + ("1", "x"))
    return dice.choice(tuple(known.get(word, ())) + VALUES.get(word, (word,)))


def line_of(dice, name, usage, known):
    """A line with that command, mostly valid."""
    words = [name]
    optional = False
    for word in dice.choice(usage.split(", ")).split():
        optional = optional or word.startswith("[")
        if not optional or dice.random() < 0.5:
            words.append(word_of(dice, word, known))
        if word.rstrip(".").endswith("]"):
            optional = False
    if dice.random() < 0.05:
        words.append(dice.choice(NONSENSE))
    if dice.random() < 0.05 and len(words) > 1:
        words.pop()
    return " ".join(words)
