# SPDX-License-Identifier: Apache-2.0
"""send.h and send.c: the client's senders of messages."""

from .text import banner, wrapped
from .wire import in_params, lowest, op_macro, out_params, prototype, rule_checks


def params_of(spec, message):
    return in_params(spec, message, lambda one: f"uint32_t {one.name}") + out_params(spec, message)


def gen_send_h(spec):
    out = [banner("One function per message, which fills it in and puts it into the ring. Any\n"
                  "thread. For a message without a reply, the function returns then. Results are set\n"
                  "on success only. Arguments that break a rule of the spec are refused here: the\n"
                  "server would end the session.",
                  "SEND_H")]
    out.append('#include <cuda.h>\n\n#include "wire.h"\n')
    for message in spec.messages:
        out.append(prototype("CUresult", f"send_{message.name}", params_of(spec, message), ");"))
    out.append("\n#endif")
    return "\n".join(out) + "\n"


def check_lines(message):
    lines, strings = [], []
    for one in message.of(True, True):
        if one.kind == "string":
            strings.append(f"\tuint32_t {one.size_name} = string_size({one.name});")
    for one in message.of(True, False) + message.of(True, True):
        for condition, rule in rule_checks(one, element(one), one.size_name):
            if one.kind == "string" and rule == "min" and lowest(one) == 1:
                continue  # string_size() counts the NUL
            if one.kind == "array":
                lines.append(f"\tfor (unsigned i = 0; i < {one.count}; i++)")
                lines.append(f"\t\tif ({condition})\n\t\t\treturn CUDA_ERROR_INVALID_VALUE;")
            else:
                lines.append(f"\tif ({condition})\n\t\treturn CUDA_ERROR_INVALID_VALUE;")
    return strings, lines


def element(one):
    return f"{one.name}[i]" if one.kind == "array" else one.name


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


def ask_lines(spec, message, tails):
    fixed = [f for f in message.fields if not f.is_in]
    tail = message.of(False, True)
    arguments = ["&msg.head", "sizeof(msg)"] + tails
    arguments += ["&reply", "sizeof(reply)"] if fixed else ["NULL", "0"]
    lines = []
    if tail:
        one = tail[0]
        room = f"{one.size_name}_max * (uint32_t)sizeof(*{one.name})"
        arguments += [one.name, room, "&tail_size"]
    else:
        arguments += ["NULL", "0", "NULL"]
    lines.append(wrapped("result = call_ask(", arguments, ");", 1))
    if not message.answers_always:
        lines.append("\tif (result != CUDA_SUCCESS)\n\t\treturn result;")
    if tail:
        one = tail[0]
        lines.append(f"\tif (tail_size != (uint64_t)reply.{one.size_name} * sizeof(*{one.name}))")
        lines.append("\t\treturn CUDA_ERROR_MPS_RPC_FAILURE;")
    for one in message.of(False, False):
        if one.kind == "array":
            lines.append(f"\tmemcpy({one.name}, reply.{one.name}, sizeof(reply.{one.name}));")
        else:
            lines.append(f"\t*ret_{one.name} = reply.{one.name};")
    if tail:
        lines.append(f"\t*ret_{tail[0].size_name} = reply.{tail[0].size_name};")
    lines.append("\treturn result;" if message.answers_always else "\treturn CUDA_SUCCESS;")
    return lines


def gen_one(spec, message):
    strings, checks = check_lines(message)
    tail = message.of(True, True)
    answer = [f for f in message.fields if not f.is_in]
    out = [prototype("CUresult", f"send_{message.name}", params_of(spec, message)), "{"]
    out += strings + fill_lines(message)
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
    out += checks + array_lines(message)
    if answer:
        if message.answers_always:
            out.append("\tmemset(&reply, 0xff, sizeof(reply));")
        out += ask_lines(spec, message, tails)
    elif message.is_sync:
        arguments = ["&msg.head", "sizeof(msg)"] + tails + ["NULL", "0", "NULL", "0", "NULL"]
        out.append(wrapped("return call_ask(", arguments, ");", 1))
    else:
        out.append(wrapped("return call_post(", ["&msg.head", "sizeof(msg)"] + tails, ");", 1))
    out.append("}")
    return "\n".join(out)


def gen_send_c(spec):
    out = [banner("The client's senders of messages. Any thread.\n\n"
                  "Invariant: each message in the ring satisfies every rule of the spec.")]
    out.append('#include "send.h"\n\n#include <string.h>\n\n#include "client/transport/call.h"\n')
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
