# SPDX-License-Identifier: Apache-2.0
"""A picture as SVG: lines of text with escaped words, of a bounded size."""

import html

SIZE_MAX = 60000


class Svg:
    def __init__(self, width, height, style, background="#fff"):
        self.lines = []
        self.add('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" '
                 'viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">', width, height,
                 width, height)
        self.add("<style>%s</style>", style)
        self.add('<rect width="%d" height="%d" fill="%s"/>', width, height, background)

    def add(self, line, *words):
        self.lines.append(line % words)

    def text(self, x, y, text, kind=""):
        self.add('<text x="%.1f" y="%.1f"%s>%s</text>', x, y,
                 ' class="%s"' % kind if kind else "", html.escape(text))

    def save(self, path):
        text = "\n".join(self.lines + ["</svg>"]) + "\n"
        assert len(text.encode()) < SIZE_MAX, len(text)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        print("%s: %d bytes" % (path, len(text.encode())))
