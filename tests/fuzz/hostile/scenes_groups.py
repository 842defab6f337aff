# SPDX-License-Identifier: Apache-2.0
"""Groups: what the operator does to them during a round, and scenes of their members."""

from . import scenes
from .manners import BYTES_MAX

# The groups that exist from the first round on; the second one is of one user.
LIMIT = "-device_pinned_mem_limit"
PIECES_MAX = 48


def first_lines(uid):
    return (("group", "create", "jobs", LIMIT, "0", "128M"),
            ("group", "create", "others", "-uid", str(uid), "-active_thread_percentage", "50"))


def any_line(dice):
    """A command about a group, which may have clients."""
    name = dice.choice(("jobs", "jobs", "jobs/x", "others", "none"))
    limit = dice.choice(("1M", "64M", "128M", "1G", "none"))
    return dice.choice((
        ("group", "set", name, LIMIT, "0", limit), ("group", "set", name, LIMIT, "0", limit),
        ("group", "create", name, LIMIT, "0", limit), ("group", "delete", name),
        ("group", "set", name, "-client_priority", dice.choice("012")),
        ("group", "set", name, "-active_thread_percentage", dice.choice(("1", "50", "100"))),
        ("group", "get", name), ("group", "list", "--json")))


def scene_group_memory(c):
    """Takes what the limit of a group leaves, in pieces, and gives it back in another order."""
    made = []
    for _ in range(c.dice.randint(2, PIECES_MAX)):
        address = scenes.some_memory(c, c.dice.choice((4096, 1 << 20, BYTES_MAX)))
        if not address:
            break
        made.append(address)
    c.say("memory_info", device=0)
    c.dice.shuffle(made)
    for address in made[c.dice.randint(0, 2):]:
        c.say("memory_free", address=address)
