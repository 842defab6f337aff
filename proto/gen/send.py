# SPDX-License-Identifier: Apache-2.0
"""send_ROOM.h, send.h and send.c: the client's senders of messages."""

from .text import banner, wrapped
from .wire import in_params, lowest, op_macro, out_params, prototype, rule_checks


def params_of(spec, message):
    return in_params(spec, message, lambda one: f"uint32_t {one.name}") + out_params(spec, message)


def gen_send_h(spec):
    """For files that send messages of any room: tests, and the generated ones."""
    out = [banner("The senders of all messages.", "SEND_H")]
    out += [f'#include "send_{room}.h"' for room in sorted(spec.rooms())]
    return "\n".join(out + ["", "#endif"]) + "\n"


def gen_send_room_h(spec, room):
    out = [banner(f"The messages that the room {room} of the client sends: one function for each,\n"
                  "which fills it in and puts it into the ring. Any thread. For a message without a\n"
                  "reply, the function returns then. Results are set on success only. Arguments that\n"
                  "break a rule of the spec are refused here: the server would end the session.",
                  f"SEND_{room.upper()}_H")]
    out.append('#include <cuda.h>\n\n#include "wire.h"\n')
    out += [prototype("CUresult", f"send_{message.name}", params_of(spec, message), ");")
            for message in spec.messages if message.room == room]
    return "\n".join(out + ["", "#endif"]) + "\n"


def check_lines(message):
    lines = []
    for one in message.of(True, False) + message.of(True, True):
        is_array = one.kind == "array"
        value, tab = (f"{one.name}[i]", "\t\t") if is_array else (one.name, "\t")
        for condition, rule in rule_checks(one, value, one.size_name):
            if one.kind == "string" and rule == "min" and lowest(one) == 1:
                continue  # string_size() counts the NUL
            lines += [f"\tfor (unsigned i = 0; i < {one.count}; i++)"] * is_array
            lines += [f"{tab}if ({condition})", f"{tab}\treturn CUDA_ERROR_INVALID_VALUE;"]
    return lines


def fill_lines(message):
    tab = "\t\t"
    lines = ["\tstruct msg_%s msg = {" % message.name, f"{tab}.head.op = {op_macro(message)},"]
    for one in message.of(True, False):
        if one.kind != "array":
            lines.append(f"{tab}.{one.name} = {one.name},")
    for one in message.of(True, True):
        lines.append(f"{tab}.{one.size_name} = {one.size_name},")
    lines.append("\t};")
    return lines


def tail_lines(message):
    lines = ["\tconst struct ring_part tails[] = {"]
    for one in message.of(True, True):
        size = one.size_name
        if one.kind == "list":
            size += f" * (uint32_t)sizeof(*{one.name})"
        lines.append(f"\t\t{{{one.name}, {size}}},")
    lines.append("\t};")
    return lines


def array_lines(message):
    return [f"\tmemcpy(msg.{one.name}, {one.name}, sizeof(msg.{one.name}));"
            for one in message.of(True, False) if one.kind == "array"]


# What call_ask() gets in place of a reply's tail.
NO_TAIL = ["NULL", "0", "NULL"]


def ask_lines(message, tails):
    arguments = ["&msg.head", "sizeof(msg)"] + tails + ["&reply", "sizeof(reply)"]
    tail = message.of(False, True)
    for one in tail:
        room = f"{one.size_name}_max * (uint32_t)sizeof(*{one.name})"
        arguments += [one.name, room, "&tail_size"]
    lines = [wrapped("result = call_ask(", arguments if tail else arguments + NO_TAIL, ");", 1)]
    if not message.answers_always:
        lines.append("\tif (result != CUDA_SUCCESS)\n\t\treturn result;")
    for one in tail:
        lines.append(f"\tif (tail_size != (uint64_t)reply.{one.size_name} * sizeof(*{one.name}))")
        lines.append("\t\treturn CUDA_ERROR_MPS_RPC_FAILURE;")
    for one in message.of(False, False):
        if one.kind == "array":
            lines.append(f"\tmemcpy({one.name}, reply.{one.name}, sizeof(reply.{one.name}));")
        else:
            lines.append(f"\t*ret_{one.name} = reply.{one.name};")
    lines += [f"\t*ret_{one.size_name} = reply.{one.size_name};" for one in tail]
    lines.append("\treturn result;" if message.answers_always else "\treturn CUDA_SUCCESS;")
    return lines


def gen_one(spec, message):
    tail, answer = message.of(True, True), message.of(False)
    out = [prototype("CUresult", f"send_{message.name}", params_of(spec, message)), "{"]
    out += [f"\tuint32_t {one.size_name} = string_size({one.name});"
            for one in tail if one.kind == "string"]
    out += fill_lines(message)
    if tail:
        out += tail_lines(message)
    tails = ["tails", "ARRAY_SIZE(tails)"] if tail else ["NULL", "0"]
    if answer:
        out.append(f"\tstruct reply_{message.name} reply;")
    if message.of(False, True):
        out.append("\tuint32_t tail_size = 0;")
    if answer:
        out.append("\tCUresult result;")
    out.append("")
    out += check_lines(message) + array_lines(message)
    if answer:
        if message.answers_always:
            out.append("\tmemset(&reply, 0xff, sizeof(reply));")
        out += ask_lines(message, tails)
    elif message.is_sync:
        arguments = ["&msg.head", "sizeof(msg)"] + tails + ["NULL", "0"] + NO_TAIL
        out.append(wrapped("return call_ask(", arguments, ");", 1))
    else:
        out.append(wrapped("return call_post(", ["&msg.head", "sizeof(msg)"] + tails, ");", 1))
    out.append("}")
    return "\n".join(out)


def gen_send_c(spec):
    out = [banner("The client's senders of messages. Any thread.\n\n"
                  "Invariant: each message in the ring satisfies every rule of the spec.")]
    out.append('#include "send.h"\n\n#include <string.h>\n\n#include "messages.h"\n'
               '#include "client/transport/call.h"\n')
    if any(f.kind == "string" for m in spec.messages for f in m.fields):
        out.append(STRING_SIZE)
    for message in spec.messages:
        out.append(gen_one(spec, message) + "\n")
    return "\n".join(out)


STRING_SIZE = """\
/* Size with the NUL; a string that is too long for any message stays too long. */
static uint32_t string_size(const char *string)
{
	return (uint32_t)strnlen(string, MESSAGE_MAX) + 1;
}
"""
