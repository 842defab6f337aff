# SPDX-License-Identifier: Apache-2.0
"""Reads proto/cuda.spec into messages, calls and aliases, and checks it."""

import ast
import hashlib
import operator
import re
from dataclasses import dataclass, field

# Spec type -> C type, bytes.
SCALARS = {
    "u8": ("uint8_t", 1),
    "u16": ("uint16_t", 2),
    "u32": ("uint32_t", 4),
    "u64": ("uint64_t", 8),
    "i32": ("int32_t", 4),
    "i64": ("int64_t", 8),
    "f32": ("float", 4),
    "f64": ("double", 8),
}
UNSIGNED = {"u8": 8, "u16": 16, "u32": 32, "u64": 64}

# Names that the generated functions use themselves.
RESERVED = {"session", "head", "msg", "reply", "body", "tails", "result", "ret_why", "sum", "i",
            "attempt"}

HEAD_SIZE = 16         # struct message_head, struct reply_head
MESSAGE_MAX = 64 << 10  # include/layout.h; wire.c asserts that they are equal
REPLY_MAX = 16 << 10
TAILS_MAX = 4          # client/transport/call.c

RULES = ("min", "max", "mask", "in")

# What a message leaves behind, and the kinds of objects besides the handles.
MARKS = ("make", "change", "end", "work", "ask")
OTHER_KINDS = ("device", "memory")
# What a field is to the record: words alone, and words with a name behind them.
NOTES = ("same", "fixed")
NAMED_NOTES = ("key", "names")
KEY_BITS = 32

# What a call states of its arguments: how many words follow, and the kinds there are.
CHECKS = {"needs": 1, "nonnull": 1, "handle": 2, "refuses": 1}
CHECK_KINDS = {
    "needs": ("context", "server", "alive", "graphs"),
    "handle": ("active", "allocation", "array", "context", "device", "event", "exec", "function",
               "graph", "green", "kernel", "kernel_node", "launchable", "legacy", "library", "mipmap", "node", "own_pool", "pool",
               "stream", "surface", "texture"),
}


# A condition in parentheses, in C.
CONDITION = r"\((?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*\)"


class SpecError(Exception):
    def __init__(self, path, line, text):
        super().__init__(f"{path}:{line}: {text}")


@dataclass
class Field:
    line: int
    is_in: bool
    kind: str              # scalar, array, devptr, handle, string, bytes, list
    type: str              # spec type; a handle's name
    name: str
    count: int = 1         # elements of an array
    length: str = ""       # devptr: the field with its size in bytes
    rules: dict = field(default_factory=dict)
    notes: dict = field(default_factory=dict)      # for the record: word -> name, or ""

    @property
    def is_tail(self):
        return self.kind in ("string", "bytes", "list")

    @property
    def wire_type(self):
        """The spec type by which a scalar, a handle or an address travels."""
        return {"handle": "u32", "devptr": "u64"}.get(self.kind, self.type)

    @property
    def size_name(self):
        """The field of a message or reply with a tail's length."""
        return f"n_{self.name}" if self.kind == "list" else f"{self.name}_size"


@dataclass
class Struct:
    line: int
    name: str
    fields: list           # (type, name)
    size: int
    align: int


@dataclass
class Message:
    line: int
    name: str
    op: int
    is_sync: bool
    answers_always: bool
    needs_memory: bool = True
    room: str = ""         # of the client, which sends it
    server_room: str = ""  # which handles it
    mark: str = ""
    object_kind: str = ""  # which it makes, changes or ends
    is_each: bool = False  # a change that replaces no earlier one
    fields: list = field(default_factory=list)

    def of(self, is_in, is_tail=None):
        """The fields of the message or of its reply: all, the tails, or all but the tails."""
        return [f for f in self.fields if f.is_in == is_in and is_tail in (None, f.is_tail)]

    @property
    def is_recorded(self):
        """Whether it makes, changes or ends an object that is not memory."""
        return self.mark in ("make", "change", "end") and self.object_kind != "memory"

    @property
    def subject(self):
        """The field with the ID of the object that it makes, changes or ends; None: there is none."""
        kind = self.object_kind
        for one in self.of(True, False):
            if self.mark != "make" and kind in self.kind_of(one):
                return one
            if self.mark == "make" and one.kind == "scalar" and one.type == "u32":
                return one
        return None

    @staticmethod
    def kind_of(one):
        return (one.type,) if one.kind == "handle" else (one.name,) if one.name == "device" else ()


@dataclass
class Check:
    """What must hold before a call: the stub tries it, so local_SYMBOL() can rely on it."""
    word: str              # needs, nonnull, handle, refuses
    kind: str              # of needs and handle; the result of refuses
    names: list            # parameters; the condition of refuses


@dataclass
class Call:
    line: int
    symbol: str
    how: str               # local, refused, alias
    flags: set = field(default_factory=set)
    checks: list = field(default_factory=list)     # Check, in their order
    why: str = ""
    target: str = ""
    function: str = ""     # which answers in place of local_SYMBOL(), ...
    arguments: list = field(default_factory=list)  # ... with these
    gives: tuple = ()      # the argument that points to the answer, and the answer
    does: str = ""         # the statement that is all of the answer
    room: str = ""         # of the client, which answers it

    @property
    def is_by_hand(self):
        """Whether local_SYMBOL() answers it."""
        return not self.function and not self.gives and not self.does


def hash_of(text):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


@dataclass
class Spec:
    path: str
    limits: dict = field(default_factory=dict)
    handles: dict = field(default_factory=dict)    # name -> line
    structs: dict = field(default_factory=dict)
    messages: list = field(default_factory=list)
    calls: dict = field(default_factory=dict)      # symbol -> Call
    wire_text: list = field(default_factory=list)  # what both sides must agree on
    moved_text: str = ""                           # what a server and its successor must agree on

    def hash(self):
        return hash_of("\n".join(self.wire_text))

    def move_hash(self):
        return hash_of("\n".join([*self.wire_text, self.moved_text]))

    @property
    def id_bits(self):
        """Of the ID of any recorded object."""
        return max((key_bits(m.subject) for m in self.messages if m.is_recorded and m.mark == "make"),
                   default=1)

    def rooms(self):
        """The rooms of the client that send messages."""
        return list(dict.fromkeys(message.room for message in self.messages))

    def server_rooms(self):
        return list(dict.fromkeys(message.server_room for message in self.messages))

    def call_rooms(self):
        """The rooms of the client that answer calls."""
        return list(dict.fromkeys(call.room for call in self.calls.values()
                                  if call.how == "local" and call.is_by_hand))

    def c_type(self, name):
        if name in SCALARS:
            return SCALARS[name][0]
        return f"struct {name}"

    def size_of(self, name):
        """(size, align) of one element."""
        if name in SCALARS:
            return SCALARS[name][1], SCALARS[name][1]
        return self.structs[name].size, self.structs[name].align


OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.BitOr: operator.or_, ast.BitAnd: operator.and_,
}


class Parser:
    def __init__(self, path, text):
        self.spec = Spec(path)
        self.text = text
        self.line = 0
        self.block = None
        self.ops = {}
        self.names = {}
        self.rooms = ("", "")  # of the client and of the server, for the lines that follow

    def fail(self, text, line=None):
        raise SpecError(self.spec.path, line or self.line, text)

    # ---- expressions

    def value(self, text):
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except SyntaxError:
            self.fail(f"'{text.strip()}' is not a number")
        return self.node_value(tree, text.strip())

    def node_value(self, node, text):
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.Name):
            if node.id not in self.spec.limits:
                self.fail(f"unknown limit '{node.id}'")
            return self.spec.limits[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            left, right = self.node_value(node.left, text), self.node_value(node.right, text)
            if isinstance(node.op, (ast.LShift, ast.RShift)) and not 0 <= right < 64:
                self.fail(f"'{text}' shifts by {right} bits")
            return OPERATORS[type(node.op)](left, right)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.node_value(node.operand, text)
        self.fail(f"'{text}' is not a number")
        return 0

    # ---- lines

    def groups(self, pattern, text, form):
        """The parts of a line that has this form."""
        match = re.fullmatch(pattern, text)
        if not match:
            self.fail(f"expected: {form}")
        return match.groups()

    def parse(self):
        for self.line, raw in enumerate(self.text.split("\n"), 1):
            text = self.without_comment(raw)
            if not text.strip():
                continue
            if raw[0] in " \t":
                self.inner(text.strip())
            else:
                self.outer(text.strip())
        self.end_block()
        self.check()
        return self.spec

    @staticmethod
    def without_comment(raw):
        quoted = re.match(r'[^"#]*"[^"]*"', raw)
        start = quoted.end() if quoted else 0
        return raw[:start] + raw[start:].split("#", 1)[0]

    def outer(self, text):
        self.end_block()
        word = text.split()[0]
        reader = {"limit": self.read_limit, "flags": self.read_flags, "handle": self.read_handle, "struct": self.read_struct,
                  "message": self.read_message, "call": self.read_call,
                  "alias": self.read_alias, "room": self.read_room}.get(word)
        if not reader:
            self.fail(f"unknown word '{word}'")
        if word in ("limit", "flags", "handle", "struct", "message"):
            self.spec.wire_text.append(" ".join(text.split()))
        reader(text)

    def inner(self, text):
        if isinstance(self.block, Message):
            self.spec.wire_text.append(" ".join(text.split()))
            self.read_field(text)
        elif isinstance(self.block, Struct):
            self.spec.wire_text.append(" ".join(text.split()))
            self.read_member(text)
        else:
            self.fail("an indented line outside a message or struct")

    def claim(self, name, what):
        if name in self.names:
            self.fail(f"'{name}' is already the name of a {self.names[name]}")
        self.names[name] = what

    def read_room(self, text):
        client, server = self.groups(r"room\s+([a-z]+)(?:\s+([a-z]+))?", text, "room CLIENT [SERVER]")
        self.rooms = (client, server or client)

    def read_limit(self, text):
        name, number = self.groups(r"limit\s+([A-Z][A-Z0-9_]*)\s*=\s*(.+)", text,
                                   "limit NAME = NUMBER")
        self.claim(name, "limit")
        value = self.value(number)
        if not 0 <= value < 1 << 64:
            self.fail(f"the limit {name} is {value}, outside 64 bits")
        self.spec.limits[name] = value

    def read_flags(self, text):
        """`flags X = A B' is `limit X_A = 1', `limit X_B = 2' and `limit X_ALL = 3'."""
        prefix, words = self.groups(r"flags\s+([A-Z][A-Z0-9_]*)\s*=\s*([A-Z][A-Z0-9_ ]*)", text,
                                    "flags NAME = NAME NAME...")
        bits = words.split()
        if len(bits) > 32:
            self.fail(f"{len(bits)} flags, more than 32")
        values = {bit: 1 << i for i, bit in enumerate(bits)}
        for name, value in {**values, "ALL": (1 << len(bits)) - 1}.items():
            self.claim(f"{prefix}_{name}", "limit")
            self.spec.limits[f"{prefix}_{name}"] = value

    def read_handle(self, text):
        name, = self.groups(r"handle\s+([a-z]\w*)", text, "handle NAME")
        self.claim(name, "handle")
        self.spec.handles[name] = self.line

    def read_struct(self, text):
        name, = self.groups(r"struct\s+([a-z]\w*)", text, "struct NAME")
        self.claim(name, "struct")
        self.block = Struct(self.line, name, [], 0, 1)
        self.spec.structs[name] = self.block

    def read_member(self, text):
        kind, name = self.groups(rf"({'|'.join(SCALARS)})\s+([a-z]\w*)", text,
                                 "TYPE NAME, with a type of fixed size")
        size = SCALARS[kind][1]
        if self.block.size % size:
            self.fail(f"'{name}' would need padding before it")
        self.block.fields.append((kind, name))
        self.block.size += size
        self.block.align = max(self.block.align, size)

    def read_message(self, text):
        name, opcode, way, away, mark = self.groups(
            r"message\s+([a-z]\w*)\s*=\s*(0x[0-9a-fA-F]+)\s+(async|sync always|sync)( away)?((?: \w+)*)",
            text, "message NAME = OPCODE async|sync|sync always [away] MARK")
        op = int(opcode, 16)
        self.claim(name, "message")
        if not 0 < op <= 0xffff:
            self.fail(f"the opcode {opcode} does not fit into 16 bits")
        if op in self.ops:
            self.fail(f"{self.ops[op]} already has the opcode {opcode}")
        self.ops[op] = name
        self.block = Message(self.line, name, op, way != "async", way == "sync always", not away,
                             *self.rooms)
        self.spec.messages.append(self.block)
        self.read_mark(self.block, mark.split())

    def read_mark(self, message, words):
        """`work', `ask', `make KIND', `end KIND' or `change KIND [each]'."""
        if not words or words[0] not in MARKS:
            self.fail(f"{message.name} needs a mark: make, change, end, work or ask")
        message.mark, *rest = words
        message.is_each = message.mark == "change" and rest[1:] == ["each"]
        if len(rest) - message.is_each != (message.mark not in ("work", "ask")):
            self.fail(f"'{' '.join(words)}' is not a mark")
        message.object_kind = rest[0] if rest else ""
        if rest and rest[0] not in self.spec.handles and rest[0] not in OTHER_KINDS:
            self.fail(f"unknown kind '{rest[0]}'")
        if message.mark == "ask" and not message.is_sync:
            self.fail("a message that asks has a reply")

    # ---- fields

    def read_field(self, text):
        direction, kind, name, index, rules = self.groups(
            r"(in|out)\s+(\w+)\s+([a-z]\w*)(?:\[([^\]]*)\])?((?:\s.*)?)", text,
            "in|out TYPE NAME[…] RULES")
        made = Field(self.line, direction == "in", "scalar", kind, name)
        if name in RESERVED or name.startswith("pad"):
            self.fail(f"'{name}' is a name that the generated code uses")
        if any(name == other.name for other in self.block.fields):
            self.fail(f"the message already has a field '{name}'")
        self.set_kind(made, index)
        self.read_rules(made, rules.split())
        self.check_rules(made)
        if not made.is_in and not self.block.is_sync:
            self.fail("an async message has no reply")
        if not made.is_in and made.is_tail and self.block.answers_always:
            self.fail("the reply of a `sync always' message has no tail")
        if not made.is_in and made.is_tail and self.block.of(False, True):
            self.fail("a reply has at most one tail")
        self.block.fields.append(made)

    def set_kind(self, made, index):
        spec = self.spec
        if made.type in ("string", "bytes"):
            made.kind = made.type
        elif made.type in spec.handles:
            made.kind = "handle"
        elif made.type == "devptr":
            made.kind = "devptr"
        elif made.type not in SCALARS and made.type not in spec.structs:
            self.fail(f"unknown type '{made.type}'")
        elif index is not None:
            made.kind = "array" if index.strip() else "list"
        elif made.type in spec.structs:
            self.fail(f"a {made.type} is for lists only: {made.name}[] max N")
        if not made.is_in and made.kind in ("handle", "devptr", "string", "bytes"):
            self.fail(f"'{made.type}' is for messages, not for replies")
        if made.kind == "devptr":
            if not index or not re.fullmatch(r"[a-z]\w*", index):
                self.fail(f"expected the field with its size: devptr {made.name}[size]")
            made.length = index
        elif made.kind == "array":
            if made.type not in SCALARS:
                self.fail(f"a {made.type} is for lists only: {made.name}[] max N")
            made.count = self.value(index)
            if not 1 <= made.count <= 256:
                self.fail(f"an array cannot have {made.count} elements")
        elif made.kind != "list" and index is not None:
            self.fail(f"'{made.type}' cannot have [{index}]")

    def read_rules(self, made, words):
        while words:
            rule = words.pop(0)
            if rule in NOTES + NAMED_NOTES:
                self.read_note(made, rule, words)
                continue
            if rule not in RULES:
                self.fail(f"unknown rule '{rule}'")
            if rule in made.rules:
                self.fail(f"the rule '{rule}' appears twice")
            value = []
            while words and words[0] not in RULES + NOTES + NAMED_NOTES:
                value.append(words.pop(0))
            if not value:
                self.fail(f"the rule '{rule}' has no value")
            made.rules[rule] = ([self.value(word) for word in value] if rule == "in"
                                else self.value(" ".join(value)))

    def read_note(self, made, note, words):
        if note in made.notes:
            self.fail(f"'{note}' appears twice")
        if note in NAMED_NOTES and not words:
            self.fail(f"'{note}' has no name")
        made.notes[note] = words.pop(0) if note in NAMED_NOTES else ""
        if made.is_tail or not self.block.is_recorded or self.block.mark == "end":
            self.fail(f"'{note}' is for the numbers of a message that makes or changes an object")
        if made.is_in == (note == "same"):
            self.fail(f"'{note}' is for {'replies' if made.is_in else 'messages'}")
        if note == "names" and made.notes[note] not in self.spec.handles:
            self.fail(f"unknown handle '{made.notes[note]}'")
        if note == "key" and (made.kind != "scalar" or "max" not in made.rules):
            self.fail("a key needs a max")

    def check_rules(self, made):
        rules = made.rules
        if made.kind in ("handle", "devptr") and rules:
            self.fail(f"a {made.kind} has no rules: the server looks it up")
        if made.is_tail:
            if set(rules) - {"min", "max"} or "max" not in rules:
                self.fail(f"'{made.name}' needs a max, and may have a min, but no other rule")
            if not 0 <= rules.get("min", 0) <= rules["max"] <= MESSAGE_MAX:
                self.fail(f"'{made.name}' does not fit into a message")
        elif not made.is_in and rules:
            self.fail("a reply has no rules: the client trusts the server")
        if made.type.startswith("f") and rules and not made.is_tail:
            self.fail("a float has no rules")
        if ("in" in rules or "mask" in rules) and len(rules) > 1:
            self.fail("'in' and 'mask' allow no other rule")
        if "mask" in rules and made.type not in UNSIGNED:
            self.fail("'mask' is for unsigned numbers")
        self.check_values(made)

    def check_values(self, made):
        """Refuses values that the type cannot have, and rules that exclude no value."""
        if made.is_tail or made.type not in SCALARS or made.type.startswith("f"):
            return
        bits = 8 * SCALARS[made.type][1]
        low = 0 if made.type in UNSIGNED else -(1 << (bits - 1))
        high = (1 << bits) - 1 if made.type in UNSIGNED else (1 << (bits - 1)) - 1
        rules = made.rules
        for rule, value in rules.items():
            for one in value if rule == "in" else [value]:
                if not low <= one <= high:
                    self.fail(f"{one} is not a {made.type}")
        if rules.get("min") == low or rules.get("max") == high or rules.get("mask") == high:
            self.fail(f"the rule of '{made.name}' allows every {made.type}")
        if "min" in rules and "max" in rules and rules["min"] > rules["max"]:
            self.fail(f"no value is between {rules['min']} and {rules['max']}")

    # ---- driver functions

    def add_call(self, call):
        if call.symbol in self.spec.calls:
            self.fail(f"{call.symbol} already appears in line "
                      f"{self.spec.calls[call.symbol].line}")
        call.room = self.rooms[0]
        self.spec.calls[call.symbol] = call

    def read_call(self, text):
        refused = re.fullmatch(r'call\s+(cu\w+)\s+refused\s+"([^"\\]+)"((?:\s+\w+)*)', text)
        local = re.fullmatch(
            rf"call\s+(cu\w+)\s+local((?:\s+[\w,]+|\s+refuses\s+{CONDITION})*?)"
            r"(?:\s+=\s+(\w+)\((.*)\)|\s+gives\s+(\w+)\s*:\s*(.+)|\s+does\s+(.+))?", text)
        if not refused and not local:
            self.fail('expected: call SYMBOL local FLAGS CHECKS = FUNCTION(ARGUMENTS), '
                      'or: ... gives ARGUMENT: EXPRESSION, or: ... does STATEMENT, '
                      'or: call SYMBOL refused "why"')
        words = re.findall(rf"{CONDITION}|[\w,]+", refused.group(3) if refused else local.group(2))
        first = next((i for i, word in enumerate(words) if word in CHECKS), len(words))
        flags = set(words[:first])
        for flag in sorted(flags - {"early", "implicit", "current"}):
            self.fail(f"unknown flag '{flag}'")
        if refused:
            self.add_call(Call(self.line, refused.group(1), "refused", flags, why=refused.group(2)))
        else:
            arguments = [one.strip() for one in (local.group(4) or "").split(",")]
            self.add_call(Call(self.line, local.group(1), "local", flags,
                               self.read_checks(words[first:]), function=local.group(3) or "",
                               arguments=arguments if local.group(4) else [],
                               gives=local.groups()[4:6] if local.group(5) else (),
                               does=local.group(7) or ""))

    def read_checks(self, words):
        """`needs KIND', `nonnull NAME,NAME', `handle KIND NAME' and `refuses (CONDITION) as RESULT',
        in any number and order."""
        checks = []
        while words:
            word, *values = words[:CHECKS.get(words[0], 0) + 1]
            if word not in CHECKS or len(values) < CHECKS[word]:
                self.fail(f"'{' '.join(words)}' is not a check")
            del words[:CHECKS[word] + 1]
            if word == "refuses":
                result = words[1] if words[:1] == ["as"] else "INVALID_VALUE"
                del words[:2 if words[:1] == ["as"] else 0]
                checks.append(Check(word, f"CUDA_ERROR_{result}", values))
                continue
            kind = "" if word == "nonnull" else values.pop(0)
            if word != "nonnull" and kind not in CHECK_KINDS[word]:
                self.fail(f"nothing {word} '{kind}'")
            checks.append(Check(word, kind, values[0].split(",") if values else []))
        return checks

    def read_alias(self, text):
        symbol, target = self.groups(r"alias\s+(cu\w+)\s*=\s*(cu\w+)", text,
                                     "alias SYMBOL = SYMBOL")
        self.add_call(Call(self.line, symbol, "alias", target=target))

    # ---- the whole

    def end_block(self):
        block = self.block
        self.block = None
        if isinstance(block, Struct):
            if not block.fields or block.size % block.align:
                self.fail(f"struct {block.name} would need padding", block.line)
        if isinstance(block, Message):
            self.check_message(block)

    def check_message(self, message):
        numbers = {f.name for f in message.fields
                   if f.is_in and f.kind == "scalar" and f.type in ("u32", "u64")}
        names = {f.name for f in message.fields}
        for one in message.fields:
            if one.kind == "devptr" and one.length not in numbers:
                self.fail(f"'{one.length}' is not an integer field of the message", one.line)
            if one.is_tail and one.size_name in names:
                self.fail(f"'{one.size_name}' is the generated length of the tail '{one.name}'", one.line)
        if message.is_recorded and not message.subject:
            self.fail(f"{message.name} has no field for the {message.object_kind}", message.line)
        if message.is_recorded and message.mark == "make" and "max" not in message.subject.rules:
            self.fail(f"the ID of the {message.object_kind} needs a max", message.subject.line)
        if sum(key_bits(f) for f in message.of(True) if "key" in f.notes) > KEY_BITS:
            self.fail(f"the key of {message.name} has more than {KEY_BITS} bits", message.line)
        if len(message.of(True, True)) > TAILS_MAX:
            self.fail(f"{message.name} has more than {TAILS_MAX} tails", message.line)
        if largest(self.spec, message, True) > MESSAGE_MAX:
            self.fail(f"{message.name} may be too large for a message", message.line)
        if largest(self.spec, message, False) > REPLY_MAX - HEAD_SIZE:
            self.fail(f"the reply to {message.name} may be too large",
                      message.line)

    def check(self):
        for call in self.spec.calls.values():
            target = self.spec.calls.get(call.target)
            if call.how == "alias" and (not target or target.how != "local"):
                self.fail(f"{call.target} is not a local call", call.line)
        by_hand = [one for one in self.spec.calls.values() if one.how == "local" and one.is_by_hand]
        for one in self.spec.messages + by_hand:
            if not one.room:
                self.fail("no line `room' before this one", one.line)


def key_bits(one):
    return one.rules["max"].bit_length()


def padded(size, align=8):
    return (size + align - 1) // align * align


def layout(spec, fields, start):
    """Members of the fixed struct: (kind, type, name, count, offset), pads included, and its size.

    Lengths of tails come after the fields.
    """
    at, members, n_pads = start, [], 0

    def pad_to(align):
        nonlocal at, n_pads
        while at % align:
            size = at & -at
            kind = {1: "u8", 2: "u16", 4: "u32"}[size]
            members.append(("pad", kind, f"pad{n_pads}", 1, at))
            n_pads += 1
            at += size

    def place(kind, type_name, name, count):
        nonlocal at
        size, align = spec.size_of(type_name)
        pad_to(align)
        members.append((kind, type_name, name, count, at))
        at += size * count

    for one in fields:
        if not one.is_tail:
            place("field", one.wire_type, one.name, one.count)
    for one in fields:
        if one.is_tail:
            place("length", "u32", one.size_name, 1)
    pad_to(8)
    return members, at


def largest(spec, message, is_in):
    _, size = layout(spec, message.of(is_in), HEAD_SIZE if is_in else 0)
    return size + sum(padded(one.rules["max"] * element_size(spec, one))
                      for one in message.of(is_in, True))


def element_size(spec, tail):
    return spec.size_of(tail.type)[0] if tail.kind == "list" else 1


def read_spec(path, shown=None):
    with open(path, encoding="utf-8") as file:
        return Parser(shown or path, file.read()).parse()
