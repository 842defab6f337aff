# SPDX-License-Identifier: Apache-2.0
"""record_rules.h and record_rules.c: what each message leaves behind for the record of a session."""

from .spec import HEAD_SIZE, OTHER_KINDS, SCALARS, key_bits, layout
from .text import banner
from .wire import op_macro

# Lists of a rule: name and how many entries there are at most.
LISTS = {"uses": 4, "keys": 3, "fixed": 4, "same": 6}


def kind_macro(name):
    return "RECORD_" + name.upper()


def kinds_of(spec):
    return ["device"] + [name for name in spec.handles]


def members_of(spec):
    """kind -> the kind with which its objects end: they have no message that ends them."""
    ended = {m.object_kind for m in spec.messages if m.mark == "end"}
    members = {}
    for message in spec.messages:
        handles = [f.type for f in message.of(True) if f.kind == "handle"]
        if message.mark == "make" and message.object_kind not in (*ended, *OTHER_KINDS) and handles:
            members[message.object_kind] = handles[0]
    return members


def places(spec, message, is_in):
    """name -> offset in the message or the reply."""
    members, _ = layout(spec, message.of(is_in), HEAD_SIZE if is_in else 0)
    return {name: at for _, _, name, _, at in members}


def size_of(spec, one):
    return SCALARS[one.wire_type][1] * one.count


def used_kind(one):
    """The kind of the object that a field names; "": it names none, or a GPU, which never ends."""
    return one.type if one.kind == "handle" else one.notes.get("names", "")


def uses_of(message):
    return [f for f in message.of(True, False) if used_kind(f) and f is not message.subject]


def order_of(spec):
    """The kinds, each behind those of the objects that its messages name."""
    members = members_of(spec)
    needs = {kind: set() for kind in kinds_of(spec)}
    for message in spec.messages:
        if message.is_recorded:
            owner = members.get(message.object_kind, message.object_kind)
            needs[owner] |= {members.get(used_kind(f), used_kind(f)) for f in uses_of(message)}
    order = []
    while len(order) < len(needs):
        order.append(next(k for k in needs if k not in order and needs[k] - {k} <= set(order)))
    return order


def group_name(message):
    keys = {f.notes["key"] for f in message.of(True) if "key" in f.notes}
    return min(keys) if keys else message.name


def groups_of(spec):
    """name of a key, or of a message whose changes replace each other -> number from 1 on."""
    numbers = {}
    for message in spec.messages:
        if message.is_recorded and message.mark == "change" and not message.is_each:
            numbers.setdefault(group_name(message), len(numbers) + 1)
    return numbers


def keys_of(spec, message):
    """A change of an object that is a part of another one has the number of the part in its key."""
    is_part = message.mark == "change" and message.object_kind in members_of(spec)
    keys = [f for f in message.of(True, False) if "key" in f.notes]
    return ([(message.subject, spec.id_bits)] if is_part else []) + [(f, key_bits(f)) for f in keys]


def joined(spans):
    """Spans (offset, size) in their order; those without a gap between them are one."""
    found = []
    for at, size in spans:
        if found and sum(found[-1]) == at:
            found[-1] = (found[-1][0], found[-1][1] + size)
        else:
            found.append((at, size))
    return found


def lists_of(spec, message):
    """The lists of a rule by name, as C."""
    at_in, at_out = places(spec, message, True), places(spec, message, False)

    def spans(fields, at, note):
        return [f"{{{begin}, {size}}}" for begin, size in joined(
            sorted((at[f.name], size_of(spec, f)) for f in fields if note in f.notes))]

    return {
        "uses": [f"{{{at_in[f.name]}, {kind_macro(used_kind(f))}, {str('fixed' in f.notes).lower()}}}"
                 for f in uses_of(message)],
        "keys": [f"{{{at_in[f.name]}, {bits}}}" for f, bits in keys_of(spec, message)],
        "fixed": spans(message.of(True), at_in, "fixed"),
        "same": spans(message.of(False), at_out, "same"),
    }


def rule_lines(spec, message, groups):
    kind, members = message.object_kind, members_of(spec)
    lines = [f"static const struct record_rule {message.name} = {{",
             f"\t.mark = RECORD_{message.mark.upper()},",
             f"\t.kind = {kind_macro(kind)},",
             f"\t.owner = {kind_macro(members.get(kind, kind))},"]
    if message.mark == "change" and not message.is_each:
        lines.append(f"\t.group = {groups[group_name(message)]},")
    if message.is_sync:
        lines.append("\t.is_sync = true,")
    lines.append(f"\t.id_at = {places(spec, message, True)[message.subject.name]},")
    if message.mark == "make":
        lines.append(f"\t.id_max = {message.subject.rules['max']},")
    for name, entries in lists_of(spec, message).items():
        assert len(entries) <= LISTS[name], f"{message.name}: {name}"
        if entries:
            lines += [f"\t.n_{name} = {len(entries)},", f"\t.{name} = {{{', '.join(entries)}}},"]
    return lines + ["};", ""]


RULE = """
/* What a message leaves behind. Offsets are from the head of the message, or in its reply. */
struct record_rule {
	uint8_t mark;
	uint8_t kind;  /* of the object that it makes, changes or ends */
	uint8_t owner; /* the same, or the kind of the object of which that is a part */
	uint8_t group; /* of changes: one with the same key replaces it; 0: every change counts */
	bool is_sync;
	uint16_t id_at; /* the ID of the object */
	uint32_t id_max;
	uint8_t n_uses, n_keys, n_fixed, n_same;
	struct {
		uint16_t at;
		uint8_t kind;
		bool is_fixed;
	} uses[RECORD_USES_MAX]; /* other objects, by ID */
	struct {
		uint16_t at;
		uint8_t bits;
	} keys[RECORD_KEYS_MAX];
	struct record_span {
		uint16_t at, size;
	} fixed[RECORD_FIXED_MAX]; /* what a change of the same key does not change, by offset */
	struct record_span same[RECORD_SAME_MAX]; /* answers that the client keeps */
};

/* NULL: the message leaves nothing behind that is recorded. */
const struct record_rule *record_rule(uint16_t op);

/* The message that ends an object of that kind, whose only field is the ID; 0: there is none. */
uint16_t record_end_op(uint8_t kind);

/* All kinds, each behind the kinds of the objects that it uses. */
extern const uint8_t record_order[RECORD_KINDS];
"""


def gen_record_rules_h(spec):
    out = [banner("What the messages of a session leave behind, for its record.", "RECORD_RULES_H"),
           '#include "wire.h"\n', "enum record_mark {"]
    out += ["\tRECORD_MAKE = 1,", "\tRECORD_CHANGE,", "\tRECORD_END,", "};\n", "enum record_kind {"]
    out += [f"\t{kind_macro(kind)}," for kind in kinds_of(spec)]
    out += ["\tRECORD_KINDS,", "};\n"]
    out += [f"#define RECORD_{name.upper()}_MAX {n}" for name, n in LISTS.items()]
    out += [RULE, '/* "stream", for log lines. */', "const char *record_kind_name(uint8_t kind);\n", "#endif"]
    return "\n".join(out) + "\n"


def gen_record_rules_c(spec):
    recorded = [m for m in spec.messages if m.is_recorded]
    out = [banner("What the messages of a session leave behind. Constant tables; any thread."),
           '#include "record_rules.h"\n\n#include "messages.h"\n']
    groups = groups_of(spec)
    for message in recorded:
        out += rule_lines(spec, message, groups)
    out.append("const struct record_rule *record_rule(uint16_t op)\n{\n\tswitch (op) {")
    for message in recorded:
        out += [f"\tcase {op_macro(message)}:", f"\t\treturn &{message.name};"]
    out.append("\tdefault:\n\t\treturn NULL;\n\t}\n}\n")
    out.append("uint16_t record_end_op(uint8_t kind)\n{\n\tswitch (kind) {")
    for message in recorded:
        if message.mark == "end":
            assert layout(spec, message.of(True), 0)[1] == 8, message.name
            out += [f"\tcase {kind_macro(message.object_kind)}:", f"\t\treturn {op_macro(message)};"]
    out.append("\tdefault:\n\t\treturn 0;\n\t}\n}\n")
    out.append("const uint8_t record_order[RECORD_KINDS] = {")
    out += [f"\t{kind_macro(kind)}," for kind in order_of(spec)]
    out.append("};\n\nconst char *record_kind_name(uint8_t kind)\n{\n\tswitch (kind) {")
    for kind in kinds_of(spec):
        out += [f"\tcase {kind_macro(kind)}:", f'\t\treturn "{kind.replace("_", " ")}";']
    out.append('\tdefault:\n\t\treturn "?";\n\t}\n}')
    return "\n".join(out) + "\n"
