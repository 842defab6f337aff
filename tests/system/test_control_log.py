#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checker of control.log finds errors: each test changes a correct log."""

import harness
from control_log import Client, Command, Log
from harness import contains, equal

# Two daemons: the first, 890, is killed, and the second, 950, adopts a server.
RIGHT = """\
[2026-11-20 23:42:48.135 Control   890] Starting control daemon using socket /tmp/control
[2026-11-20 23:42:48.135 Control   890] CUDA MPS Control binary version: 13000
[2026-11-20 23:42:49.154 Control   890] Accepting connection...
[2026-11-20 23:42:49.154 Control   890] NEW CLIENT 894 from user 7: Server is not ready, push client to pending list
[2026-11-20 23:42:49.154 Control   896] Starting new server 896 for user 7
[2026-11-20 23:42:49.427 Control   890] NEW SERVER 896: Ready
[2026-11-20 23:42:49.449 Control   890] NEW CLIENT 897 from user 7: Server already exists
[2026-11-20 23:42:49.606 Control   890] Cmd:get_server_list
[2026-11-20 23:42:49.606 Control   890] 896
[2026-11-20 23:42:49.700 Control   890] Cmd:shutdown_server 896
[2026-11-20 23:42:49.700 Control   890] Try shutting down server 896, backoff is disabled
[2026-11-20 23:42:49.800 Control   890] Server 896 exited with status 0
[2026-11-20 23:42:49.900 Control   890] NEW CLIENT 899 from user 7: Server is not ready, push client to pending list
[2026-11-20 23:42:49.900 Control   901] Starting new server 901 for user 7
[2026-11-20 23:42:50.000 Control   890] NEW SERVER 901: Ready
[2026-11-20 23:42:50.001 Control   890] Accepting connection...
[2026-11-20 23:42:50.001 Control   890] Accepting connection...
[2026-11-20 23:42:51.000 Control   950] Server 901 of user 7 was started by the previous daemon
[2026-11-20 23:42:51.000 Control   950] Starting control daemon using socket /tmp/control
[2026-11-20 23:42:51.100 Control   950] Adopted server 901 of user 7
[2026-11-20 23:42:51.101 Control   950] NEW SERVER 901: Ready
[2026-11-20 23:42:52.000 Control   950] Cmd:start_server -uid x
[2026-11-20 23:42:52.000 Control   950] "x" is not a user id
[2026-11-20 23:42:53.000 Control   950] Cmd:quit
[2026-11-20 23:42:53.000 Control   950] Try shutting down server 901, backoff is disabled
[2026-11-20 23:42:53.100 Control   950] Server 901 has ended (its exit status is unknown, as it was adopted)
[2026-11-20 23:42:53.100 Control   950] Exit with status 0
"""
COMMANDS = (Command("get_server_list", ["896"], True), Command("shutdown_server 896", []),
            Command("start_server -uid x", ['"x" is not a user id']), Command("quit", []))
CLIENTS = (Client(894, 7, 896, 1.0, 2.0), Client(897, 7, 896, 1.5, 2.0),
           Client(899, 7, 901, 3.0, 4.0))


def check(text=RIGHT, commands=COMMANDS, clients=CLIENTS, was_quit=True, **modes):
    return Log(text, **modes).check(commands, clients, was_quit)


def fails(word, text=RIGHT, **more):
    contains("\n".join(check(text, **more)), word)


def without(part):
    contains(RIGHT, part)
    return "".join(line for line in RIGHT.splitlines(True) if part not in line)


def instead(old, new):
    contains(RIGHT, old)
    return RIGHT.replace(old, new, 1)


def after(part, text, prefix="[2026-11-20 23:42:49.950 Control   890] "):
    """The correct log with another line after that one."""
    contains(RIGHT, part)
    return "".join(line + (prefix + text + "\n" if part in line else "")
                   for line in RIGHT.splitlines(True))


def test_right():
    for modes in ({}, {"is_exclusive": True}, {"is_multiuser": True}):
        equal(check(**modes), [])
    equal(check(without("Exit with"), was_quit=False), [])


def test_lines():
    fails("no end", RIGHT[:-1])
    fails("no whole line", instead("] NEW SERVER 896", ""))
    fails("no whole line", RIGHT[20:])
    fails("control bytes", instead("binary", "bi\x1bnary"))
    fails("control bytes", instead("binary", "bi\x9bnary"))
    fails("too long", instead("binary", "x" * 1200))
    fails("time goes back", instead("23:42:49.154", "23:42:49.950"))


def test_starts_and_ends():
    fails("was never started", without("Starting new server 896"))
    fails("server 896 has no end", without("Server 896 exited"))
    fails("has no end", without("Server 901 has ended"))
    fails("has ended", after("Server 896 exited", "Server 896 exited with status 0"))
    fails("has ended", after("Server 896 exited", "NEW SERVER 896: Ready"))
    fails("has ended", after("Server 896 exited", "Try shutting down server 896, backoff is disabled"))
    fails("started twice", after("NEW SERVER 896", "Starting new server 896 for user 7",
                                 "[2026-11-20 23:42:49.430 Control   896] "))
    fails("in the name of", instead("Control   896] Starting", "Control   890] Starting"))
    equal(check(instead("exited with status 0", "was ended by signal 9 (Killed)")), [])


def test_daemons():
    fails("the last line", without("Exit with"))
    fails("says more", RIGHT + "[2026-11-20 23:42:53.100 Control   950] Accepting connection...\n")
    fails("no daemon adopts", without("was started by").replace("Adopted", "Accepted"))
    fails("have begun", without("Starting control daemon"))
    gone = instead("was started by the previous daemon", "was").replace(
        "Server 901 of user 7 was",
        "Server 901 of user 7 of the previous daemon is not adopted: No such process")
    fails("has ended", gone)


def test_a_kill_between_log_and_record():
    """The daemon dies right after it has logged a start or an end: the next cannot know it."""
    head = RIGHT[:RIGHT.index("[2026-11-20 23:42:50.000")]
    tail = ("[2026-11-20 23:42:51.000 Control   950] Starting control daemon using socket /tmp/c\n"
            "[2026-11-20 23:42:53.100 Control   950] Exit with status 0\n")
    equal(check(head + tail, COMMANDS[:2], CLIENTS[:2]), [])
    head = RIGHT[:RIGHT.index("[2026-11-20 23:42:49.900")]
    gone = ("[2026-11-20 23:42:51.000 Control   950] Server 896 of user 7 of the previous "
            "daemon is not adopted: No such process\n")
    equal(check(head + gone + tail, COMMANDS[:2], CLIENTS[:2]), [])
    more = "".join("[2026-11-20 23:42:50.000 Control   890] Accepting connection...\n" for _ in range(4))
    fails("ends twice", head + more + gone + tail, commands=COMMANDS[:2], clients=CLIENTS[:2])


def test_commands():
    fails("missing", without("Cmd:get_server_list"))
    fails("without that reply", without("] 896\n"))
    fails("without that reply", instead("] 896\n", "] 897\n"))
    fails("without that reply", after("Cmd:get_server_list", "Accepting connection...",
                                      "[2026-11-20 23:42:49.606 Control   890] "))
    fails("without that reply", instead("is not a user id", "is a user id"))
    fails("missing", commands=COMMANDS[::-1])
    left = Command("quit", [])
    left.is_left = True
    equal(check(RIGHT, (left, *COMMANDS[:3])), [])
    json = instead("] 896\n", "] 8 bytes\n")
    equal(check(json, (Command("get_server_list", ['{"a": 1}']),)), [])
    equal(check(instead("] 896\n", "] 2 bytes\n"), (Command("get_server_list", ["[]"]),)), [])
    equal(check(instead("] 896\n", "] [0] x\n"), (Command("get_server_list", ["[0] x"]),)), [])
    fails("without that reply", json, commands=(Command("get_server_list", ['{"a": 10}']),))
    equal(check(without("Cmd:quit"), COMMANDS[:3] + (Command("quit"),)), [])


def test_clients():
    fails("client 895 of user 7 is missing", clients=CLIENTS + (Client(895, 7),))
    fails("is missing", clients=(Client(894, 8),))
    quitting = instead("Try shutting down server 901", "Refused client 895 of user 7: The MPS daemon is "
                       "quitting\n[2026-11-20 23:42:53.000 Control   950] Try shutting down server 901")
    equal(check(quitting, clients=CLIENTS + (Client(895, 7),)), [])
    fails("client 895 of user 7 is missing", quitting, clients=(Client(895, 7, 896),))
    fails("has not started", clients=(Client(894, 7, 902, 1, 2),))
    fails("has not started", without("NEW SERVER 896").replace("already exists", "is not ready, push "
                                                               "client to pending list"))
    fails("had ended", clients=(Client(899, 7, 896, 1, 2),))
    fails("was to end", clients=(Client(899, 7, 896, 1, 2),), text=without("exited with"))
    fails("no server that is ready", without("NEW SERVER 896"))
    fails("no server that is ready", after(
        "Cmd:shutdown_server", "NEW CLIENT 905 from user 8: Server already exists"))
    fails("unknown text", instead("Server already exists", "Server does exist"))
    fails("of user 8 was handed to server 896 of user 7",
          instead("894 from user 7", "894 from user 8"), clients=(Client(894, 8, 896, 1, 2),))


def test_slots():
    both = after("NEW SERVER 896", "Starting new server 900 for user 7",
                 "[2026-11-20 23:42:49.427 Control   900] ").replace(
        "23:42:49.606 Control   890] Cmd", "23:42:49.606 Control   890] NEW SERVER 900: Ready\n"
        "[2026-11-20 23:42:49.606 Control   890] Server 900 exited with status 0\n"
        "[2026-11-20 23:42:49.606 Control   890] Cmd")
    clients = CLIENTS + (Client(897, 7, 900, 1, 2),)
    fails("shared at once", both, clients=clients)
    equal(check(both.replace(
        "[2026-11-20 23:42:49.606 Control   890] NEW SERVER 900",
        "[2026-11-20 23:42:49.500 Control   890] Cmd:restart_server 896 -t 3\n"
        "[2026-11-20 23:42:49.606 Control   890] NEW SERVER 900"), clients=clients,
        commands=(Command("restart_server 896 -t 3", []),) + COMMANDS), [])
    apart = both.replace("Client 897", "").replace(
        "[2026-11-20 23:42:49.606 Control   890] NEW SERVER 900",
        "[2026-11-20 23:42:49.606 Control   890] Client 897 of user 7 gets a server of its own: x\n"
        "[2026-11-20 23:42:49.606 Control   890] NEW SERVER 900")
    equal(check(apart, clients=clients), [])
    other = both.replace("server 900 for user 7", "server 900 for user 8")
    fails("shared at once", other, clients=clients, is_multiuser=True)


def test_named_servers():
    """A named server exists from its addition to its deletion, and beside that of its user."""
    added = "Adding server 'pool'"
    named = after("NEW SERVER 896", added, "[2026-11-20 23:42:49.427 Control   890] ")
    client = Client(897, 7, 896, 1.5, 2.0, "pool")
    equal(check(named, clients=(client,)), [])
    fails("which did not exist", clients=(client,))
    fails("which did not exist", after("NEW CLIENT 897", added, "[2026-11-20 23:42:49.449 Control   890] "),
          clients=(client,))
    fails("added twice", named.replace("Cmd:get_server_list", added))
    fails("does not exist", after("Cmd:shutdown_server", "Server 'pool' is deleted",
                                  "[2026-11-20 23:42:49.700 Control   890] "))
    ended = named.replace("Cmd:get_server_list", "Server 'pool' is deleted", 1)
    equal(check(ended, COMMANDS[1:], (client,)), [])
    fails("does not exist", ended.replace("Cmd:shutdown_server 896", "Server 'pool' is deleted"))
    fails("which did not exist", named.replace("NEW CLIENT 899", "Server 'pool' is deleted\n"
                                               "[2026-11-20 23:42:49.900 Control   890] NEW CLIENT 899"),
          clients=(Client(899, 7, 901, 3, 4, "pool"),))
    # The daemon died right after it had logged the end: the next one may still have it.
    head = named[:named.index("[2026-11-20 23:42:49.900")].replace("Server 896 exited with status 0",
                                                                    "Server 'pool' is deleted")
    tail = ("[2026-11-20 23:42:51.000 Control   950] Server 896 of user 7 was started by the previous daemon\n"
            "[2026-11-20 23:42:51.000 Control   950] Starting control daemon using socket /tmp/control\n"
            "[2026-11-20 23:42:51.101 Control   950] NEW SERVER 896: Ready\n"
            "[2026-11-20 23:42:51.900 Control   950] NEW CLIENT 899 from user 7: Server already exists\n"
            "[2026-11-20 23:42:53.100 Control   950] Server 896 exited with status 0\n"
            "[2026-11-20 23:42:53.100 Control   950] Exit with status 0\n")
    equal(check(head + tail, (), (Client(899, 7, 896, 3, 4, "pool"),)), [])
    more = "".join("[2026-11-20 23:42:50.000 Control   890] Accepting connection...\n" for _ in range(4))
    fails("which did not exist", head + more + tail, commands=(), clients=(Client(899, 7, 896, 3, 4, "pool"),))
    both = Client(894, 7, 896, 1, 2), client
    fails("server 896 is", named, clients=both)
    size = instead("] 896\n", "] 5 bytes\n").replace("get_server_list", "server list")
    equal(check(size, (Command("server list", ["a,b,c"]),)), [])
    fails("without that reply", size, commands=(Command("server list", ["a,b,cd"]),))


def test_turns():
    fails("had clients at once", is_exclusive=True,
          clients=CLIENTS[:2] + (Client(899, 7, 901, 1.9, 4.0),))
    both = after("NEW SERVER 896", "Starting new server 900 for user 8",
                 "[2026-11-20 23:42:49.427 Control   900] ").replace(
        "23:42:49.606 Control   890] Cmd", "23:42:49.606 Control   890] NEW SERVER 900: Ready\n"
        "[2026-11-20 23:42:49.606 Control   890] TURN\n"
        "[2026-11-20 23:42:49.606 Control   890] Server 900 exited with status 0\n"
        "[2026-11-20 23:42:49.606 Control   890] Cmd")
    equal(check(both), [])
    fails("has the GPU beside", both, is_exclusive=True)
    equal(check(both.replace("TURN", "Server 900 of user 8 waits for its turn: a GPU is in compute "
                             "mode EXCLUSIVE_PROCESS, and server 896 of user 7 has it"),
                is_exclusive=True), [])


if __name__ == "__main__":
    harness.main(globals())
