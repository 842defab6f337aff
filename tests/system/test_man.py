#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
# without sanitizers: it reads text
"""The manual pages as a reader sees them: rendered by groff, and compared with the programs."""

import functools
import glob
import os
import re
import subprocess

import harness
import mps
import test_completion
from harness import contains, equal

FOLDER = harness.ROOT + "/docs/man/"
ORDER = ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "ENVIRONMENT", "FILES", "EXIT STATUS",
         "EXAMPLES", "SEE ALSO")
# By the page's number. A program also says how it ends.
SECTIONS = {"1": ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "ENVIRONMENT", "EXIT STATUS", "SEE ALSO"),
            "5": ("NAME", "SYNOPSIS", "DESCRIPTION", "ERRORS", "EXAMPLES", "SEE ALSO"),
            "7": ("NAME", "SYNOPSIS", "DESCRIPTION", "ENVIRONMENT", "ERRORS", "FILES", "SEE ALSO"),
            "8": ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO")}
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")
# Without hyphenation, in lines that hold a whole paragraph, and with room for the terms of a list.
INDENT = 60
GROFF = ("-man", "-Tutf8", "-rHY=0", "-rIN=%dn" % INDENT, "-rLL=2000n", "-P-c", "-P-b", "-P-o", "-P-u")


def pages():
    found = {os.path.basename(path): path for path in glob.glob(FOLDER + "*")}
    assert len(found) >= 7, found
    return found


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


@functools.cache
def render(name):
    """(the page as text, what groff complains about)"""
    groff = mps.need_program("groff")
    done = subprocess.run([groff, "-ww", *GROFF, FOLDER + name], capture_output=True, text=True, check=True)
    return done.stdout.replace("\N{MINUS SIGN}", "-").replace("\N{HYPHEN}", "-"), done.stderr


def sections(name):
    """title -> text, in the order of the page"""
    parts = re.split(r"^(\S.*)\n", render(name)[0], flags=re.M)
    found = dict(zip(parts[1::2], parts[2::2]))
    # The first and the last line of the page.
    return {title: " ".join(text.split()) for title, text in found.items() if title == title.strip()
            and not re.search(r"\(\d\)$", title)}


def source_words(name):
    """Runs of letters and digits of the source, each as it is written, without macros and escapes."""
    text = re.sub(r"^\.\\\".*$|^\.[A-Za-z]+", "", read(FOLDER + name), flags=re.M)
    return set(re.findall(r"\w+", re.sub(r"\\[&ce]|\\f[BIRP]|\\\(\w\w|\\", "", text)))


def paragraphs(name, title):
    """The terms of a section's list: what stands further left than their texts."""
    text = re.split(r"^\S", render(name)[0].split("\n%s\n" % title)[1], flags=re.M)[0]
    return [line.split("   ")[0] for line in re.findall(r"^ {%d}(\S.*)$" % INDENT, text, re.M)]


def test_groff():
    """It has no complaint, in the width of a terminal either."""
    for name, path in pages().items():
        equal(render(name)[1], "", name)
        done = subprocess.run([mps.need_program("groff"), "-man", "-ww", "-z", "-Tutf8", path],
                              capture_output=True, text=True, check=True)
        equal(done.stderr, "", name)


def test_mandoc():
    """The other renderer of manual pages has no complaint either."""
    for path in pages().values():
        done = subprocess.run([mps.need_program("mandoc"), "-T", "lint", "-W", "warning", path],
                              capture_output=True, text=True, check=False)
        equal(done.stdout, "", path)


def test_words():
    """No two words of the source run together on the page, and none gets lost."""
    for name in pages():
        seen = set(re.findall(r"\w+", render(name)[0]))
        equal(seen - source_words(name) - {"Manual", "Miscellaneous", "Formats"}, set(), name)
        equal(source_words(name) - seen, set(), name)


def test_sections():
    """Those of the page's kind, in the usual order; the name is the file's."""
    for name in pages():
        title, _, number = name.rpartition(".")
        found = list(sections(name))
        equal([each for each in SECTIONS[number] if each not in found], [], "%s: missing" % name)
        known = [each for each in found if each in ORDER]
        equal(known, sorted(known, key=ORDER.index), name)
        assert re.match(r"(\S+, )*%s(, \S+)* - \w" % re.escape(title), sections(name)["NAME"]), name
        assert all(sections(name).values()), "%s: an empty section" % name


def test_references():
    """A page that another one names exists."""
    ours = r"(?<![\w/-])((?:lib)?mps[\w.-]*|nvidia-cuda-mps-\w+)\((\d)\)"
    for name in pages():
        for title, number in re.findall(ours, " ".join(sections(name).values())):
            assert "%s.%s" % (title, number) in pages(), "%s: %s(%s)" % (name, title, number)


def output(*words):
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    return done.stdout + done.stderr


def options_of(text):
    """The options that a help lists at the beginning of a line."""
    lines = [line.strip() for line in text.splitlines() if re.match(r" +-", line)]
    return {option for line in lines for option in OPTION.findall(re.split(r"  +", line)[0])}


def terms(name, title="OPTIONS"):
    return {option for term in paragraphs(name, title) for option in OPTION.findall(term)}


def test_options():
    """The page has the options of the program's help, and no others."""
    equal(terms("mps-control.1"), options_of(output(mps.CONTROL, "-h")))
    equal(terms("mps-run.1"), options_of(output(mps.BUILD + "/bin/mps-run", "--help")))
    usage = OPTION.findall(output(mps.BUILD + "/bin/mps-top", "--help").partition("[")[2].partition("\n")[0])
    assert len(usage) == 4, usage
    equal(terms("mps-top.1"), set(usage) | {"--delay", "--iterations", "-h", "--help"})
    # Of programs that the daemon starts.
    for name in "mps-server", "mps-exporter":
        said = output(mps.BUILD + "/bin/" + name, "--help")
        contains(said, "not to be run by hand")
        equal(set(OPTION.findall(sections(name + ".8")["SYNOPSIS"])),
              set(OPTION.findall(said.partition("Started")[0])), name)


def usage_words(usage):
    """The literal words and the placeholders of a usage, as often as they occur."""
    return sorted(re.findall(r"[\w-]+", usage))


def test_commands():
    """Each command of the daemon has a paragraph with its options, and each paragraph a command."""
    listed = {}
    for term in paragraphs("mps-control.1", "COMMANDS"):
        name, _, usage = term.partition(" ")
        if re.match(r"[a-z]", name):  # Not the first line of a paragraph.
            listed[name] = listed.get(name, "") + " " + usage
    equal(set(listed), set(test_completion.usages()))
    for name, usage in test_completion.usages().items():
        for option in OPTION.findall(usage):
            contains(listed[name], option, name)
        for option in OPTION.findall(listed[name]):
            if name != "group":  # Its options are those of the limits.
                contains(usage, option, name)


def page(name):
    return " ".join(sections(name).values())


def test_variables():
    """Those that the help of mps-control names, and every one of a client."""
    named = set(re.findall(r"\b(?:CUDA_)?MPS_\w+", output(mps.CONTROL, "-h")))
    assert len(named) > 15, named
    for variable in named:
        contains(page("mps-control.1"), variable)
    section = read(harness.ROOT + "/docs/settings.md").split("\n## Of a client\n")[1].split("\n## ")[0]
    variables = set(re.findall(r"^\| `(\w+)", section, re.M))
    assert "MPS_GROUP" in variables, section
    for variable in variables:
        for name in "libmpsclient.7", "mps-run.1":
            contains(page(name), variable, name)


def test_top():
    """mps-top(1) has every column and every member of the JSON."""
    folder = harness.ROOT + "/daemon/top/"
    members = re.findall(r'"(\w+)"', read(folder + "top_print.c"))
    titles = re.findall(r'^\t\[TOP_\w+\] = \{"([^"]+)"', read(folder + "top_column.c"), re.M)
    assert len(titles) > 10 and len(members) > 5, (titles, members)
    for word in members + titles:
        contains(page("mps-top.1"), word)


def test_errors_of_clients():
    """libmpsclient(7) has every error that the service adds."""
    paths = [path for folder in ("daemon/*", "server", "client/*")
             for path in glob.glob("%s/%s/*.c" % (harness.ROOT, folder))]
    errors_used = set(re.findall(r"(?<!case )\bCUDA_ERROR_MPS_\w+(?=[;:)]|, [\"&])", "\n".join(
        read(path) for path in paths if not path.endswith("/transport/error.c"))))
    assert len(errors_used) >= 5, errors_used
    for name in errors_used:
        contains(page("libmpsclient.7"), name)


# ---- mps.conf(5)

def literals(path):
    """The formats of a file's messages; a variable part is `…'."""
    text = re.sub(r"/\*.*?\*/|^#include [^\n]*", "", read(path), flags=re.S | re.M).replace(
        "GROUP_NAME_ACCEPTED", '"1 to 255 letters, digits and . _ / -"')
    for run in re.findall(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', text):
        found = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', run)).replace(r"\"", '"')
        yield re.sub(r"%[-+ #0-9.*]*(?:l|ll|z|h)*[a-zA-Z]", "…", found)


def errors():
    """What the reader of the file can say of it; a single word is no sentence."""
    for name in "config/config_file.c", "config/config_text.c", "text/ini.c":
        for text in literals("%s/daemon/%s" % (harness.ROOT, name)):
            text = re.sub(r"^…(:…)?: ", "", text)
            if re.search(r"[a-z]{2}", text) and " " in text:
                yield text


def test_errors_of_the_file():
    """mps.conf(5) has each error; a word in capitals stands for what varies."""
    found = set(errors())
    assert len(found) >= 25, found
    page = sections("mps.conf.5")["ERRORS"]
    missing = [text for text in found
               if not re.search(re.escape(text).replace("…", r"[A-Z]+"), page)]
    equal(missing, [])


if __name__ == "__main__":
    harness.main(globals())
