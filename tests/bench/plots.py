# SPDX-License-Identifier: Apache-2.0
"""Plots of throughput and of latency against the number of clients: throughput.svg, latency.svg."""

import collections
import math
import os

from clients import LATENCY, TAIL, THROUGHPUT
from svg import Svg
from ways import LABELS, NAMES

COLOURS = dict(zip(NAMES, ("#7f8c99", "#76a713", "#1f6fb5")))
STYLE = ("text{fill:#333}.small{font-size:10px}.end{text-anchor:end}.middle{text-anchor:middle}"
         ".title{font-weight:bold}polyline{fill:none;stroke-width:2}.tail{stroke-dasharray:4 3}")
# Of a chart, its plot inside it, and the picture.
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 400, 274, 74, 30, 14, 44
COLUMNS, LEGEND = 2, 30


def lines_of(rows, quantities):
    """{chart: {(way, quantity): [(clients, value)]}} of the rows that plots show."""
    charts = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        if row.at and row.at[1] in quantities:
            chart, quantity, count = row.at
            for way, value in row.medians.items():
                charts[chart][way, quantity].append((count, value))
    return charts


def short(value):
    for factor, letter in ((1e6, "M"), (1e3, "k")):
        if value >= factor:
            return "%g%s" % (value / factor, letter)
    return "%g" % value


class Chart:
    """Both axes are logarithmic."""

    def __init__(self, svg, x, y, lines):
        self.svg, self.x, self.y = svg, x, y
        points = [point for line in lines.values() for point in line]
        self.counts = sorted({count for count, _ in points})
        values = [value for _, value in points if value > 0] or [1]
        self.low = math.floor(math.log10(min(values)))
        self.high = max(math.ceil(math.log10(max(values))), self.low + 1)

    def across(self, count):
        first, last = (math.log2(n) for n in (self.counts[0], self.counts[-1]))
        part = (math.log2(count) - first) / ((last - first) or 1)
        return self.x + LEFT + part * (WIDTH - LEFT - RIGHT)

    def up(self, value):
        part = (math.log10(max(value, 10 ** self.low)) - self.low) / (self.high - self.low)
        return self.y + HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)

    def frame(self, title, unit):
        self.svg.text(self.x + LEFT, self.y + 18, title, "title")
        self.svg.text(self.x + (LEFT + WIDTH - RIGHT) / 2, self.y + HEIGHT - 12, "clients", "small middle")
        self.svg.add('<g transform="rotate(-90 %.1f %.1f)">', self.x + 22, self.y + HEIGHT / 2)
        self.svg.text(self.x + 22, self.y + HEIGHT / 2, unit, "small middle")
        self.svg.add("</g>")
        for power in range(self.low, self.high + 1):
            at = self.up(10 ** power)
            self.svg.add('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ddd"/>',
                         self.x + LEFT, at, self.x + WIDTH - RIGHT, at)
            self.svg.text(self.x + LEFT - 6, at + 4, short(10 ** power), "small end")
        for count in self.counts:
            self.svg.text(self.across(count), self.y + HEIGHT - BOTTOM + 16, str(count),
                          "small middle")

    def line(self, way, kind, points):
        self.svg.add('<polyline class="%s" stroke="%s" points="%s"/>', kind, COLOURS[way], " ".join(
            "%.1f,%.1f" % (self.across(count), self.up(value)) for count, value in points))
        for count, value in points:
            self.svg.add('<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>', self.across(count),
                         self.up(value), COLOURS[way])


def draw(charts, unit, note):
    height = LEGEND + HEIGHT * math.ceil(len(charts) / COLUMNS)
    svg = Svg(COLUMNS * WIDTH, height, STYLE)
    for i, way in enumerate(NAMES):
        svg.add('<rect x="%d" y="10" width="18" height="4" fill="%s"/>', LEFT + 130 * i,
                COLOURS[way])
        svg.text(LEFT + 24 + 130 * i, 17, LABELS[way])
    if note:
        svg.text(LEFT + 130 * len(NAMES), 17, note)
    for i, (title, lines) in enumerate(charts.items()):
        chart = Chart(svg, i % COLUMNS * WIDTH, LEGEND + i // COLUMNS * HEIGHT, lines)
        chart.frame(title, unit)
        for (way, quantity), points in lines.items():
            chart.line(way, "tail" if quantity == TAIL else "", sorted(points))
    return svg


def save(rows, folder):
    """Draws what there are rows for."""
    os.makedirs(folder, exist_ok=True)
    for name, quantities, unit, note in (
            ("throughput", (THROUGHPUT,), "kernels per second, all clients", ""),
            ("latency", (LATENCY, TAIL), "time of a round, microseconds", "median; dashed: p99")):
        charts = lines_of(rows, quantities)
        if charts:
            draw(charts, unit, note).save(os.path.join(folder, name + ".svg"))
