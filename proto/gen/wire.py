# SPDX-License-Identifier: Apache-2.0
"""wire.h, messages.h, wire.c, spec_hash.h: the layout of messages and replies."""

from .spec import HEAD_SIZE, MESSAGE_MAX, REPLY_MAX, SCALARS, layout
from .text import banner, wrapped


def number(value, kind=""):
    """A C constant, with a suffix if its type is unsigned; short enough for a float's precision."""
    if kind.startswith("f"):
        return f"{value & 0xfff}.5f"
    if kind.startswith("i"):
        return str(value) if value > -(1 << 31) else f"({value + 1} - 1)"
    suffix = "ull" if value > 0xffffffff else "u"
    return f"{value:#x}{suffix}" if value > 4096 else f"{value}{suffix}"


def op_macro(message):
    return "OP_" + message.name.upper()


def gen_spec_hash(spec):
    return banner("SPEC_HASH: of what a client, its server and the daemon have in common. MOVE_HASH: of what\n"
                  "two servers between which clients move have in common.", "SPEC_HASH_H") + \
        f"\n#define SPEC_HASH 0x{spec.hash():016x}ull\n" \
        f"/* For the assembler, which knows no suffix. */\n" \
        f'#define SPEC_HASH_TEXT "0x{spec.hash():016x}"\n' \
        f"\n#define MOVE_HASH 0x{spec.move_hash():016x}ull\n\n#endif\n"


def comment_of(message):
    return "has a reply" if message.is_sync else "no reply"


def struct_lines(spec, name, fields, start, head):
    members, size = layout(spec, fields, start)
    lines = [f"struct {name} {{"]
    if head:
        lines.append("\tstruct message_head head;")
    for _, kind, member, count, _ in members:
        lines.append(f"\t{SCALARS[kind][0]} {member}{f'[{count}]' if count > 1 else ''};")
    lines.append("};")
    lines.append(f'_Static_assert(sizeof(struct {name}) == {size}, "wire");')
    return lines


def gen_wire_h(spec):
    out = [banner("The limits and structs of messages, and names of numbers.", "WIRE_H")]
    out.append('#include "layout.h"\n')
    for name, value in spec.limits.items():
        out.append(f"#define WIRE_{name} {number(value)}")
    out.append("")
    for struct in spec.structs.values():
        out.append(f"struct {struct.name} {{")
        out += [f"\t{SCALARS[kind][0]} {name};" for kind, name in struct.fields]
        out.append("};")
        out.append(f'_Static_assert(sizeof(struct {struct.name}) == {struct.size}, "wire");\n')
    out.append("/* The name of a message, for log lines; never NULL. */")
    out.append("const char *op_name(uint16_t op);\n")
    out.append("/* Whether the message can use device memory of its client. */")
    out.append("bool op_needs_memory(uint16_t op);\n")
    out.append("/* The name of a CUresult in cuda.h; NULL if cuda.h does not have it. */")
    out.append("const char *cuda_result_name(uint32_t result);\n")
    out.append("#endif")
    return "\n".join(out) + "\n"


def gen_messages_h(spec):
    out = [banner("The layout of messages and replies in shared memory. Tails follow the struct,\n"
                  "each padded with zeros to MESSAGE_ALIGN; only the struct has their lengths.",
                  "MESSAGES_H")]
    out.append('#include "layout.h"\n')
    out.append("enum op {")
    out += [f"\t{op_macro(m)} = {m.op:#06x}," for m in spec.messages]
    out.append("};\n")
    for message in spec.messages:
        out.append(f"/* {message.name}: {comment_of(message)} */")
        out += struct_lines(spec, f"msg_{message.name}", message.of(True), HEAD_SIZE, True)
        if message.of(False):
            out.append("")
            out += struct_lines(spec, f"reply_{message.name}", message.of(False), 0, False)
        out.append("")
    out.append("#endif")
    return "\n".join(out) + "\n"


def gen_wire_c(spec, headers):
    out = [banner("Names of numbers, and the proof that spec and headers agree. Any thread.")]
    out.append('#include "wire.h"\n\n#include "messages.h"\n')
    out.append(f'_Static_assert(sizeof(struct message_head) == {HEAD_SIZE}, "wire");')
    out.append(f'_Static_assert(sizeof(struct reply_head) == {HEAD_SIZE}, "wire");')
    out.append(f'_Static_assert(MESSAGE_MAX == {MESSAGE_MAX}, "proto/gen/spec.py");')
    out.append(f'_Static_assert(REPLY_MAX == {REPLY_MAX}, "proto/gen/spec.py");\n')
    for name in spec.limits:
        out.append(f"#ifdef {name}")
        out.append(f'_Static_assert(WIRE_{name} == {name}, "proto/cuda.spec and include/");')
        out.append("#endif")
    out.append("\nconst char *op_name(uint16_t op)\n{\n\tswitch (op) {")
    for message in spec.messages:
        out.append(f"\tcase {op_macro(message)}:")
        out.append(f'\t\treturn "{message.name}";')
    out.append('\tdefault:\n\t\treturn "unknown";\n\t}\n}\n')
    out += needs_memory(spec)
    out.append("static const struct {\n\tuint32_t value;\n\tconst char *name;\n} results[] = {")
    out += [f'\t{{{value}, "{name}"}},' for name, value in headers.results]
    out.append("};\n")
    out.append(RESULT_NAME)
    return "\n".join(out)


def needs_memory(spec):
    away = [f"\tcase {op_macro(one)}:" for one in spec.messages if not one.needs_memory]
    if not away:
        return ["bool op_needs_memory(_unused_ uint16_t op)\n{\n\treturn true;\n}\n"]
    return ["bool op_needs_memory(uint16_t op)\n{\n\tswitch (op) {", *away,
            "\t\treturn false;\n\tdefault:\n\t\treturn true;\n\t}\n}\n"]


RESULT_NAME = """\
const char *cuda_result_name(uint32_t result)
{
	for (size_t i = 0; i < ARRAY_SIZE(results); i++)
		if (results[i].value == result)
			return results[i].name;
	return NULL;
}
"""


# ---- parameters, which client and server share

def in_params(spec, message, handle):
    """C parameters of a message; `handle' is how objects are passed."""
    params = []
    for one in message.of(True):
        if one.kind == "handle":
            params.append(handle(one))
        elif one.kind == "string":
            params.append(f"const char *{one.name}")
        elif one.kind == "bytes":
            params += [f"const void *{one.name}", f"uint32_t {one.size_name}"]
        elif one.kind == "list":
            params += [f"const {spec.c_type(one.type)} *{one.name}", f"uint32_t {one.size_name}"]
        elif one.kind == "array":
            params.append(f"const {spec.c_type(one.type)} {one.name}[{one.count}]")
        else:
            params.append(f"{spec.c_type(one.wire_type)} {one.name}")
    return params


def out_params(spec, message):
    params = []
    for one in message.of(False):
        if one.kind == "list":
            params += [f"{spec.c_type(one.type)} *{one.name}", f"uint32_t {one.size_name}_max",
                       f"uint32_t *ret_{one.size_name}"]
        elif one.kind == "array":
            params.append(f"{spec.c_type(one.type)} {one.name}[{one.count}]")
        else:
            params.append(f"{spec.c_type(one.type)} *ret_{one.name}")
    return params


def lowest(one):
    """The least length of a tail: a string has at least its NUL."""
    return max(one.rules.get("min", 0), 1 if one.kind == "string" else 0)


def rule_checks(one, value, length):
    """(C condition that is true when the rule is broken, name of the rule)."""
    rules, checks = one.rules, []
    if one.is_tail:
        low = lowest(one)
        if low:
            checks.append((f"{length} < {number(low)}", "min"))
        checks.append((f"{length} > {number(rules['max'])}", "max"))
        return checks
    if "min" in rules:
        checks.append((f"{value} < {number(rules['min'], one.type)}", "min"))
    if "max" in rules:
        checks.append((f"{value} > {number(rules['max'], one.type)}", "max"))
    if "mask" in rules:
        mask = f"({SCALARS[one.type][0]}){number(rules['mask'])}"
        checks.append((f"({value} & ~{mask}) != 0", "mask"))
    if "in" in rules:
        terms = [f"{value} != {number(v, one.type)}" for v in rules["in"]]
        checks.append((" && ".join(terms), "in"))
    return checks


def prototype(result, name, params, end=")"):
    return wrapped(f"{result} {name}(", params or ["void"], end)
