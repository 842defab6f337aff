# SPDX-License-Identifier: Apache-2.0
"""Ways that take turns, so that a slow change of the machine affects all of them."""

import collections
import statistics


def alternate(ways, count, measure):
    """Calls measure(way), which returns {key: value}; returns {key: {name of the way: values}}.

    Every second round has the reverse order, so that no way always comes first or last: the GPU is
    cooler, and the processors are faster, after a pause.
    """
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for i in range(count):
        for way in ways if i % 2 == 0 else reversed(ways):
            for key, value in measure(way).items():
                found[key][way.name].append(value)
    return found


def divide(above, below):
    """The ratio of the medians, of each way that has both."""
    return {way: [statistics.median(values) / statistics.median(below[way])]
            for way, values in above.items() if way in below}
