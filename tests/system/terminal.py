# SPDX-License-Identifier: Apache-2.0
"""A terminal for a test: a program in a pty, and what its output draws as xterm would.

    with terminal.Terminal(["top"], env) as screen:
        screen.wait_for_text("PID")
        screen.send("q")

It understands what ncurses sends to TERM=xterm. Anything else fails the test, so that text of
strangers cannot reach the terminal as a command unseen.
"""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import unicodedata

from harness import SLOW

PATTERN = re.compile(r"\x1b(\[([?>]?)([\d;]*)([@-~])|[()][A-Z0-9]|[=>78M])|\x1b[^\n]{0,12}|[\x00-\x1f]|[^\x00-\x1f]+",
                     re.S)
BOLD, DIM, UNDERLINE, REVERSE = 1, 2, 4, 7
# Modes, window titles on the stack, the cursor's form: nothing of them is drawn.
SILENT = frozenset("hltmq")


def columns_of(char):
    if unicodedata.combining(char) or unicodedata.category(char) == "Cf":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


class Screen:
    """The cells of a terminal: (character, attributes); the second cell of a wide one is empty."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.attributes = frozenset()
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.pending = ""
        self.last = " "
        self.region = (0, rows - 1)
        self.row = self.column = 0
        self.n_resizes = 0  # after which the program has not drawn everything again
        self.cells = [self.blank_row() for _ in range(rows)]

    def blank_row(self):
        return [(" ", frozenset())] * self.columns

    def resize(self, columns, rows):
        """The program has not noticed yet: what it is writing now may be for the old size."""
        self.columns, self.rows = columns, rows
        self.cells = [self.blank_row() for _ in range(rows)]
        self.region = (0, rows - 1)
        self.row = self.column = 0
        self.n_resizes += 1

    def lines(self):
        return ["".join(char for char, _ in row).rstrip() for row in self.cells]

    def feed(self, data):
        text = self.pending + self.decoder.decode(data)
        # A sequence may be cut between two reads.
        cut = re.search(r"\x1b(\[[?>]?[\d;]*|[()]?)$", text)
        self.pending = cut.group() if cut else ""
        for match in PATTERN.finditer(text[:len(text) - len(self.pending)]):
            self.act(match)

    def act(self, match):
        piece = match.group()
        if match.group(4):
            self.control(match.group(2), match.group(3), match.group(4))
        elif piece == "\x1bM":
            self.next_row(-1, self.region[0], "T")
        elif match.group(1):
            pass
        elif piece == "\r":
            self.column = 0
        elif piece == "\n":
            self.next_row(1, self.region[1], "S")
        elif piece == "\b":
            self.column = max(self.column - 1, 0)
        else:
            assert piece[0] >= " ", "unexpected %r" % piece
            for char in piece:
                self.put(char)

    def next_row(self, step, edge, final):
        """At the edge of the scrolling region its lines move instead."""
        if self.row == edge:
            self.shift(final, 1)
        else:
            self.row = min(max(self.row + step, 0), self.rows - 1)

    def put(self, char):
        width = columns_of(char)
        assert width > 0, "character without a width: %r" % char
        if self.column + width > self.columns:
            assert self.n_resizes > 0, "beyond the right margin: %r" % char
            return
        self.last = char
        self.cells[self.row][self.column] = (char, self.attributes)
        if width == 2:
            self.cells[self.row][self.column + 1] = ("", self.attributes)
        self.column += width

    def control(self, private, numbers, final):
        given = [int(number or 0) for number in numbers.split(";")]
        n = given[0] or 1
        if final == "m" and not private:
            self.set_attributes(given)
        elif final in SILENT:
            # To the second page, or back to the first, which the tests do not look at.
            if private == "?" and 1049 in given:
                self.cells = [self.blank_row() for _ in range(self.rows)]
            assert (private, final, given) != ("", "h", [4]), "insert mode"
        elif final == "r":
            self.region = (n - 1, (given[1] if len(given) > 1 else self.rows) - 1)
            self.row = self.column = 0
        elif final in "ABCDGHd":
            self.move(final, n, given)
        else:
            self.edit(final, n, given[0])

    def set_attributes(self, numbers):
        for number in numbers:
            if number == 0:
                self.attributes = frozenset()
            elif number in (22, 24, 27):
                gone = {22: {BOLD, DIM}, 24: {UNDERLINE}, 27: {REVERSE}}[number]
                self.attributes = self.attributes - gone
            elif number in (BOLD, DIM, UNDERLINE, REVERSE):
                self.attributes = self.attributes | {number}
            else:
                assert number in (39, 49), "unexpected attribute %d" % number

    def move(self, final, n, given):
        if final == "H":
            self.row, self.column = n - 1, ((given + [1])[1] or 1) - 1
        elif final == "d":
            self.row = n - 1
        elif final == "G":
            self.column = n - 1
        else:
            rows, columns = {"A": (-n, 0), "B": (n, 0), "C": (0, n), "D": (0, -n)}[final]
            self.row += rows
            self.column += columns
        self.row = min(max(self.row, 0), self.rows - 1)
        self.column = min(max(self.column, 0), self.columns - 1)

    def edit(self, final, n, given):
        row, blank = self.cells[self.row], (" ", frozenset())
        if final == "K":
            first, end = {0: (self.column, self.columns), 1: (0, self.column + 1),
                          2: (0, self.columns)}[given]
            row[first:end] = [blank] * (end - first)
        elif final == "J":
            first = {0: self.row, 2: 0}[given]
            self.n_resizes -= given == 2 and self.n_resizes > 0
            if given == 0:
                row[self.column:] = [blank] * (self.columns - self.column)
                first += 1
            for at in range(first, self.rows):
                self.cells[at] = self.blank_row()
        elif final == "X":
            row[self.column:self.column + n] = [blank] * min(n, self.columns - self.column)
        elif final == "P":
            row[self.column:] = row[self.column + n:] + [blank] * min(n, self.columns - self.column)
        elif final == "@":
            row[self.column:] = ([blank] * n + row[self.column:])[:self.columns - self.column]
        elif final == "b":
            for _ in range(n):
                self.put(self.last)
        elif final in "LMST":
            self.shift(final, n)
        else:
            raise AssertionError("unexpected control sequence %r" % final)

    def shift(self, final, n):
        """Inserts (L, T) or deletes (M, S) lines, within the scrolling region."""
        top = self.row if final in "LM" else self.region[0]
        bottom = self.region[1] + 1
        part = self.cells[top:bottom]
        blank = [self.blank_row() for _ in range(min(n, len(part)))]
        self.cells[top:bottom] = ((blank + part)[:len(part)] if final in "LT" else part[n:] + blank)


class Terminal:
    """A program whose terminal this is."""

    def __init__(self, words, env, columns=80, rows=24, **more):
        self.screen = Screen(columns, rows)
        self.raw = b""
        self.master, slave = pty.openpty()
        self.set_size(columns, rows)
        self.process = subprocess.Popen(
            words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env=dict({"TERM": "xterm", "LC_ALL": "C.UTF-8"}, **env), **more)
        self.slave = slave

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def set_size(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns, rows):
        """The kernel then sends SIGWINCH."""
        self.pump(0)
        self.screen.resize(columns, rows)
        self.set_size(columns, rows)

    def send(self, keys):
        os.write(self.master, keys.encode())

    def pump(self, timeout_s=0.05):
        """Draws what the program has written."""
        while select.select([self.master], [], [], timeout_s)[0]:
            data = os.read(self.master, 65536)
            self.raw += data
            self.screen.feed(data)
            timeout_s = 0

    def text(self):
        return "\n".join(self.screen.lines())

    def wait_for(self, what, condition, timeout_s=20.0 * SLOW):
        """Waits until condition(text of the screen) is true, and returns its value."""
        deadline = time.monotonic() + timeout_s
        while True:
            self.pump()
            value = condition(self.text())
            if value:
                return value
            assert time.monotonic() < deadline, "%s: not within %g s:\n%s" % (
                what, timeout_s, self.text())

    def wait_for_text(self, pattern):
        """Waits until the screen matches; returns the match."""
        return self.wait_for(pattern, lambda text: re.search(pattern, text, re.M))

    def wait_for_end(self):
        """Returns the exit status."""
        def is_over(_):
            return self.process.poll() is not None
        self.wait_for("the end of the program", is_over)
        self.pump()
        return self.process.returncode

    def modes(self):
        """Whether the terminal shows what is typed, and passes it on line by line."""
        local = termios.tcgetattr(self.slave)[3]
        return bool(local & termios.ECHO), bool(local & termios.ICANON)
