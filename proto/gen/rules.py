# SPDX-License-Identifier: Apache-2.0
"""test_rules.c: for each message, a valid one, one that breaks each rule, and a round trip.

Run by tests/unit/proto/test_wire.c, whose half of this is in tests/proto/rules.h.
"""

from dataclasses import dataclass

from .dispatch import do_params, number_name
from .spec import HEAD_SIZE, SCALARS, element_size, layout
from .text import banner, wrapped
from .wire import lowest, number, op_macro, prototype

TAIL_BYTES = 13        # leaves padding, which tests check
LIST_ELEMENTS = 3
BAD_ID = 0xdead        # no session has such an object
BAD_ADDRESS = 0xbad000  # no session has such memory
GOOD_ADDRESS = 0x200000000000


@dataclass
class Refusal:
    why: str           # the reason from dispatch_message(); "": only the result shows the refusal
    result: str
    offset: int
    width: int
    value: int


@dataclass
class Attempt:
    """A call of send_X() with one argument at the edge of a rule, or beyond."""
    what: str
    field: object
    argument: str
    is_refused: bool


class Case:
    """One message; the value of each field differs from those of all other fields."""

    def __init__(self, spec, message, index):
        self.spec, self.message = spec, message
        self.base = 0x1000 + 0x100 * index
        self.fields, self.answers = message.of(True), message.of(False)
        members, self.size = layout(spec, self.fields, HEAD_SIZE)
        self.offsets = {name: at for _, _, name, _, at in members}
        self.pads = [(name, at, SCALARS[kind][1])
                     for what, kind, name, _, at in members if what == "pad"]
        self.total = self.size
        self.tail_at = {}
        for one in self.fields:
            if one.is_tail:
                self.tail_at[one.name] = self.total
                self.total += (self.tail_bytes(one) + 7) // 8 * 8

    # ---- values

    def pattern(self, one):
        return self.base + 0x10 * (self.message.fields.index(one) + 1)

    def allowed(self, one, value):
        rules = one.rules
        if one.type in SCALARS and not one.type.startswith("f"):
            bits = 8 * SCALARS[one.type][1]
            if value >= 1 << (bits if one.type.startswith("u") else bits - 1):
                return False
        return (value >= rules.get("min", value) and value <= rules.get("max", value)
                and ("mask" not in rules or not value & ~rules["mask"])
                and ("in" not in rules or value in rules["in"]))

    def value(self, one, i=0):
        """A valid value of a scalar or of element i of an array."""
        pattern = self.pattern(one) + i
        if one.kind == "devptr":
            return GOOD_ADDRESS + (pattern << 8)
        if one.kind == "handle":
            return pattern
        tries = [pattern | pattern << 40, pattern, pattern & 0xff, one.rules.get("max", 0),
                 one.rules.get("min", 0), one.rules.get("mask", 0)] + one.rules.get("in", [])[-1:]
        return next(v for v in tries if self.allowed(one, v))

    def constants(self, one):
        """(index, constant) of the value of a scalar, or of each element of an array."""
        if one.kind == "array":
            return [(f"[{i}]", number(self.value(one, i), one.type)) for i in range(one.count)]
        return [("", number(self.value(one), one.wire_type))]

    def tail_count(self, one):
        """Elements of a list, bytes of others (a string's NUL too)."""
        wanted = LIST_ELEMENTS if one.kind == "list" else TAIL_BYTES
        return max(min(wanted, one.rules["max"]), one.rules.get("min", 0))

    def tail_bytes(self, one):
        return self.tail_count(one) * element_size(self.spec, one)

    def tail_line(self, function, to, one, end=");"):
        """A call with the place, the size and the pattern of a tail that is no string."""
        return wrapped(function, [to, str(self.tail_bytes(one)), str(self.pattern(one) & 0xff)],
                       end, 1)

    def tail_text(self, one):
        return (one.name * TAIL_BYTES)[:self.tail_count(one) - 1]

    # ---- refusals

    def refusals(self):
        name = self.message.name
        made = [Refusal("head: reserved: not zero", "", 12, 4, 1)]
        if self.message.is_sync:
            made.append(Refusal(f"{name}: reply: a slot", "", 6, 2, 0))
            made.append(Refusal(f"{name}: reply: a slot", "", 6, 2, 65))
        else:
            made.append(Refusal(f"{name}: reply: no slot", "", 6, 2, 1))
        for pad, at, width in self.pads:
            made.append(Refusal(f"{name}: {pad}: not zero", "", at, width, 1))
        for one in self.fields:
            made += self.tail_refusals(one) if one.is_tail else self.fixed_refusals(one)
        return made

    def broken_values(self, one):
        rules = one.rules
        if "min" in rules:
            yield "min", rules["min"] - 1
        if "max" in rules:
            yield "max", rules["max"] + 1
        if "mask" in rules:
            yield "mask", ~rules["mask"] & (rules["mask"] + 1)
        if "in" in rules:
            yield "in", next(v for v in range(256) if v not in rules["in"])

    def fixed_refusals(self, one):
        at = self.offsets[one.name]
        if one.kind == "handle":
            return [Refusal("", "CUDA_ERROR_INVALID_HANDLE", at, 4, BAD_ID)]
        if one.kind == "devptr":
            return [Refusal("", "CUDA_ERROR_INVALID_VALUE", at, 8, BAD_ADDRESS)]
        width = SCALARS[one.type][1]
        return [Refusal(f"{self.message.name}: {one.name}: {rule}", "",
                        at + width * (one.count - 1), width, value)
                for rule, value in self.broken_values(one)]

    def tail_refusals(self, one):
        where = f"{self.message.name}: {one.name}"
        at, size = self.tail_at[one.name], self.tail_bytes(one)
        length_at = self.offsets[one.size_name]
        made = []
        low = lowest(one)
        if low:
            made.append(Refusal(f"{where}: min", "", length_at, 4, low - 1))
        made.append(Refusal(f"{where}: max", "", length_at, 4, one.rules["max"] + 1))
        made.append(Refusal(f"{where}: max", "", length_at, 4, 0xffffffff))
        if size % 8:
            made.append(Refusal(f"{where}: padding", "", at + (size + 7) // 8 * 8 - 1, 1, 1))
        if one.kind == "string":
            made.append(Refusal(f"{where}: one NUL, at its end", "", at, 1, 0))
            made.append(Refusal(f"{where}: one NUL, at its end", "", at + size - 1, 1, ord("x")))
        return made

    # ---- attempts

    def attempts(self):
        made = []
        for one in self.fields:
            if one.is_tail:
                made += self.tail_attempts(one)
                continue
            for rule, value in self.broken_values(one):
                argument = number(value, one.type)
                made.append(Attempt(f"{one.name}: beyond {rule}", one, argument, True))
            for rule, edge in one.rules.items():
                for value in edge if rule == "in" else [edge]:
                    argument = number(value, one.type)
                    made.append(Attempt(f"{one.name}: at {rule}", one, argument, False))
        return made

    @staticmethod
    def tail_attempts(one):
        low, high = lowest(one), one.rules["max"]
        made = [Attempt(f"{one.name}: at max", one, str(high), False),
                Attempt(f"{one.name}: beyond max", one, str(high + 1), True),
                Attempt(f"{one.name}: at min", one, str(low), False)]
        if low > 1 or low == 1 and one.kind != "string":
            made.append(Attempt(f"{one.name}: beyond min", one, str(low - 1), True))
        return made


def make_lines(case):
    message = case.message
    out = [f"static uint32_t make_{message.name}(void *buffer)", "{"]
    out += [f"\tstruct msg_{message.name} *msg = buffer;", ""]
    out += [f"\tmemset(buffer, 0, {case.total});", f"\tmsg->head.size = {case.total};",
            f"\tmsg->head.op = {op_macro(message)};",
            f"\tmsg->head.reply = {int(message.is_sync)};"]
    for one in case.fields:
        if one.is_tail:
            out.append(f"\tmsg->{one.size_name} = {case.tail_count(one)};")
            to = f"(uint8_t *)buffer + {case.tail_at[one.name]}"
            if one.kind == "string":
                out.append(wrapped("memcpy(", [to, f'"{case.tail_text(one)}"',
                                               str(case.tail_bytes(one))], ");", 1))
            else:
                out.append(case.tail_line("fill(", to, one))
        else:
            out += [f"\tmsg->{one.name}{at} = {value};" for at, value in case.constants(one)]
    return out + [f"\treturn {case.total};", "}", ""]


def expect_lines(case):
    """What do_X() finds in its arguments if the message is valid."""
    out = []
    for one in case.fields:
        name = one.name
        number_of = number_name(case.spec, case.message, name)
        if one.kind == "handle":
            out.append(f"\tEXPECT({name} == object({case.value(one)}));")
        elif one.kind == "string":
            out.append(f'\tEXPECT(!strcmp({name}, "{case.tail_text(one)}"));')
        elif one.is_tail:
            size_name = number_name(case.spec, case.message, one.size_name)
            out.append(f"\tEXPECT({size_name} == {case.tail_count(one)});")
            out.append(case.tail_line("EXPECT(is_filled(", name, one, "));"))
        else:
            out += [f"\tEXPECT({number_of}{at} == {value});" for at, value in case.constants(one)]
    return out


def touch_lines(case):
    """Reads every byte that a handler may read, so that the sanitizer checks them."""
    out = []
    for one in case.fields:
        if one.kind == "string":
            out.append(f"\ttouch({one.name}, strlen({one.name}) + 1);")
        elif one.is_tail:
            size = element_size(case.spec, one)
            times = f" * {size}ull" if size > 1 else ""
            size_name = number_name(case.spec, case.message, one.size_name)
            out.append(f"\ttouch({one.name}, {size_name}{times});")
    return out


def answer_lines(case):
    out = []
    for one in case.answers:
        if one.kind == "list":
            out.append(f"\tEXPECT({one.size_name}_max == {one.rules['max']});")
            out.append(case.tail_line("fill(", one.name, one))
            out.append(f"\t*ret_{one.size_name} = {case.tail_count(one)};")
        else:
            to = one.name if one.kind == "array" else f"*ret_{one.name}"
            out += [f"\t{to}{at} = {value};" for at, value in case.constants(one)]
    return out


def do_lines(case):
    message = case.message
    params = do_params(case.spec, message)
    out = [prototype("CUresult", f"do_{message.name}", params), "{"]
    out.append(f"\trules_done({op_macro(message)}, session);")
    out += touch_lines(case) + answer_lines(case)
    out.append("\tif (!rules_strict)\n\t\treturn CUDA_SUCCESS;")
    out += expect_lines(case)
    return out + ["\treturn CUDA_SUCCESS;", "}", ""]


def argument_lines(case):
    """Declarations and arguments of a valid call of send_X()."""
    lines, arguments = [], []
    for one in case.fields:
        name = one.name
        if one.kind == "string":
            lines.append(f'\tconst char *{name} = "{case.tail_text(one)}";')
        elif one.is_tail:
            lines += [f"\tuint64_t {name}_bytes[{(case.tail_bytes(one) + 7) // 8}];",
                      f"\tconst void *{name} = attempt ? long_bytes() : {name}_bytes;",
                      f"\tuint32_t {one.size_name} = {case.tail_count(one)};"]
        elif one.kind == "array":
            values = [value for _, value in case.constants(one)]
            kind = case.spec.c_type(one.type)
            lines.append(wrapped(f"{kind} {name}[{one.count}] = {{", values, "};", 1))
        else:
            kind = case.spec.c_type(one.wire_type)
            lines.append(f"\t{kind} {name} = {case.constants(one)[0][1]};")
        arguments += [name, one.size_name] if one.is_tail and one.kind != "string" else [name]
    for one in case.answers:
        kind = case.spec.c_type(one.type)
        if one.kind == "list":
            lines.append(f"\t{kind} {one.name}[{one.rules['max']}];")
            lines.append(f"\tuint32_t {one.size_name} = 0;")
            arguments += [one.name, str(one.rules["max"]), f"&{one.size_name}"]
        elif one.kind == "array":
            lines.append(f"\t{kind} {one.name}[{one.count}] = {{0}};")
            arguments.append(one.name)
        else:
            lines.append(f"\t{kind} {one.name} = 0;")
            arguments.append(f"&{one.name}")
    return lines, arguments


def break_lines(number_of, attempt):
    """Puts the argument of an attempt in place of the valid one."""
    one = attempt.field
    change = (f"{one.name} = long_string({attempt.argument})" if one.kind == "string"
              else f"{one.size_name} = {attempt.argument}" if one.is_tail
              else f"{one.name}[{one.count - 1}] = {attempt.argument}" if one.kind == "array"
              else f"{one.name} = {attempt.argument}")
    return [f"\tif (attempt == {number_of})", f"\t\t{change};"]


def send_lines(case):
    """send_X() with valid arguments and a look at its results, or with one argument of an attempt."""
    name, attempts = case.message.name, case.attempts()
    lines, arguments = argument_lines(case)
    out = [f"static CUresult try_{name}(unsigned attempt)", "{"] + lines
    out += ["\tCUresult result;", ""]
    if not attempts and not any(one.is_tail for one in case.fields) and not case.answers:
        out.append("\t(void)attempt;")
    out += [case.tail_line("fill(", f"{one.name}_bytes", one)
            for one in case.fields if one.is_tail and one.kind != "string"]
    for i, attempt in enumerate(attempts, 1):
        out += break_lines(i, attempt)
    out.append(wrapped(f"result = send_{name}(", arguments, ");", 1))
    if case.answers:
        out.append("\tif (attempt || result != CUDA_SUCCESS)\n\t\treturn result;")
    for one in case.answers:
        if one.kind == "list":
            out.append(f"\tEXPECT({one.size_name} == {case.tail_count(one)});")
            out.append(case.tail_line("EXPECT(is_filled(", one.name, one, "));"))
        else:
            out += [f"\tEXPECT({one.name}{at} == {value});" for at, value in case.constants(one)]
    out += ["\treturn result;", "}", ""]
    if attempts:
        out += [f"static const struct attempt attempts_{name}[] = {{"]
        out += [f'\t{{"{one.what}", {"true" if one.is_refused else "false"}}},' for one in attempts]
        out += ["};", ""]
    return out, bool(attempts)


def case_lines(case):
    name = case.message.name
    out = make_lines(case) + do_lines(case)
    attempts, has_attempts = send_lines(case)
    out += attempts
    out.append(f"static const struct rule rules_{name}[] = {{")
    for one in case.refusals():
        why = f'"{one.why}"' if one.why else "NULL"
        out.append(wrapped("{", [why, one.result or "CUDA_SUCCESS", str(one.offset), str(one.width),
                                 f"{one.value & (1 << 8 * one.width) - 1:#x}ull"], "},", 1))
    out += ["};", ""]
    return out, has_attempts


def memory_lines(cases):
    """A memory_find() with each range of the valid messages."""
    out = ["uint64_t memory_find(struct session *session, uint64_t address, uint64_t size)", "{",
           "\t(void)session;", "\tif (!rules_strict)\n\t\treturn address;", "\tswitch (address) {"]
    for case in cases:
        by_name = {f.name: f for f in case.fields}
        for one in case.fields:
            if one.kind == "devptr":
                out.append(f"\tcase {number(case.value(one))}:")
                out.append(f"\t\treturn size == {number(case.value(by_name[one.length]))} ? address : 0;")
    return out + ["\tdefault:", "\t\treturn 0;", "\t}", "}", ""]


def gen_test_rules(spec):
    cases = [Case(spec, message, i) for i, message in enumerate(spec.messages)]
    out = [banner("For each message: a valid one, one that breaks each rule, a round trip.\n"
                  "For test_wire.c.")]
    out.append('#include <string.h>\n')
    out.append('#include "messages.h"\n#include "tests/proto/rules.h"')
    out += [f'#include "do_{room}.h"' for room in sorted(spec.server_rooms())]
    out.append('#include "send.h"\n')
    for name in spec.handles:
        out += [f"struct {name} *session_{name}(struct session *session, uint32_t id)", "{",
                "\t(void)session;", f"\treturn id == {BAD_ID:#x} ? NULL : object(id);", "}", ""]
    out += memory_lines(cases)
    rows = []
    for case in cases:
        lines, has_attempts = case_lines(case)
        out += lines
        name = case.message.name
        attempts = ([f"attempts_{name}", f"ARRAY_SIZE(attempts_{name})"] if has_attempts
                    else ["NULL", "0"])
        row = [f'"{name}"', f"make_{name}", f"try_{name}", f"rules_{name}",
               f"ARRAY_SIZE(rules_{name})"]
        rows.append(wrapped("{", row + attempts, "},", 1))
    out += ["const struct rule_case rule_cases[] = {"] + rows + ["};", ""]
    out.append("const unsigned n_rule_cases = ARRAY_SIZE(rule_cases);")
    return "\n".join(out) + "\n"
