# SPDX-License-Identifier: Apache-2.0
"""A terminal's screen as SVG. Its cells are rows of (character, attributes)."""

import html
import itertools
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

from terminal import BOLD, DIM, REVERSE, UNDERLINE  # pylint: disable=wrong-import-position

# Of a cell, in pixels.
WIDTH, HEIGHT = 8, 17
MARGIN = 12
LIGHT, DARK, PALE = "#d8dee6", "#1d2733", "#8b97a5"


def runs_of(row):
    """(column, text, attributes) of the parts of a row that look the same."""
    at = 0
    for attributes, part in itertools.groupby(row, key=lambda cell: cell[1]):
        text = "".join(char for char, _ in part)
        yield at, text, attributes
        at += len(text)


def style_of(attributes):
    colour = DARK if REVERSE in attributes else PALE if DIM in attributes else LIGHT
    return (' fill="%s"' % colour + (' font-weight="bold"' if BOLD in attributes else "")
            + (' text-decoration="underline"' if UNDERLINE in attributes else ""))


def draw_run(y, column, text, attributes):
    x = MARGIN + column * WIDTH
    if REVERSE in attributes:
        yield '<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>' % (
            x, y, len(text) * WIDTH, HEIGHT, LIGHT)
    # Viewers draw several blanks as one. The length keeps the columns, whatever font the viewer has.
    for part in re.finditer(r"\S+( \S+)*", text):
        yield '<text x="%d" y="%d" textLength="%d"%s>%s</text>' % (
            x + part.start() * WIDTH, y + 13, len(part.group()) * WIDTH, style_of(attributes),
            html.escape(part.group()))


def draw(cells, title):
    width = 2 * MARGIN + max(len(row) for row in cells) * WIDTH
    height = 2 * MARGIN + len(cells) * HEIGHT
    yield ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" '
           'aria-label="%s">' % (width, height, width, height, title))
    yield "<title>%s</title>" % title
    yield ('<style>text { font: 13px "DejaVu Sans Mono", Menlo, Consolas, monospace }'
           '</style>')
    yield '<rect width="%d" height="%d" rx="8" fill="%s"/>' % (width, height, DARK)
    for at, row in enumerate(cells):
        for column, text, attributes in runs_of(row):
            yield from draw_run(MARGIN + at * HEIGHT, column, text, attributes)
    yield "</svg>"


def save(path, cells, title):
    text = "\n".join(draw(cells, title)) + "\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    print("%s: %d bytes" % (path, len(text.encode())))
