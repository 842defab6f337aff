# SPDX-License-Identifier: Apache-2.0
"""calls.md and coverage.md: the messages, and which functions are supported."""

from .headers import DECLARED
from .spec import HEAD_SIZE, layout
from .stubs import stubs_of


def rules_of(one):
    words = []
    for rule, value in one.rules.items():
        values = value if rule == "in" else [value]
        words.append(rule + " " + " ".join(str(v) for v in values))
    if one.kind == "devptr":
        words.append(f"memory of the caller, {one.length} bytes")
    words += [f"{note} {name}".strip() for note, name in one.notes.items()]
    return ", ".join(words)


def gen_calls(spec):
    out = ["# Messages", "",
           "Made from proto/cuda.spec. The rules of the wire are in docs/protocol.md.", ""]
    for message in spec.messages:
        way = "sync" if message.is_sync else "async"
        mark = f"{message.mark} {message.object_kind}".strip() + (" each" if message.is_each else "")
        out += [f"## {message.name}, {message.op:#06x}, {way}, {mark}", ""]
        for is_in, title, start in ((True, "Message", HEAD_SIZE), (False, "Reply", 0)):
            fields = message.of(is_in)
            if not fields:
                continue
            by_name = {f.name: f for f in fields}
            members, size = layout(spec, fields, start)
            out += [f"{title}:", "", "| offset | type | field | rules |",
                    "| --- | --- | --- | --- |"]
            for kind, type_name, name, count, at in members:
                one = by_name.get(name)
                shown = one.type if one and one.kind in ("handle", "devptr") else type_name
                if count > 1:
                    shown += f"[{count}]"
                rules = "zero" if kind == "pad" else rules_of(one) if one else ""
                out.append(f"| {at} | {shown} | {name} | {rules} |")
            for one in fields:
                if one.is_tail:
                    out.append(f"| from {size} | {one.type}{'[]' if one.kind == 'list' else ''} | "
                               f"{one.name} | {rules_of(one)} |")
                    size = "the last one's end, 8-aligned"
            out.append("")
    return "\n".join(out)


def how_of(stub):
    return {"local": "local", "alias": f"as {stub.target}", "refused": f"refused: {stub.call.why}",
            "unserved": "not yet"}[stub.how]


def gen_coverage(spec, headers):
    stubs = stubs_of(spec, headers)
    ours = [s for s in stubs if s.prototype.header in DECLARED]
    served = [s for s in ours if s.target]
    out = [f"{len(served)} of {len(ours)} symbols served", "",
           "Made from proto/cuda.spec and NVIDIA's headers. What is not served returns",
           "CUDA_ERROR_NOT_SUPPORTED and says so once in the client's log.", ""]
    chapters = {}
    for stub in stubs:
        chapters.setdefault(stub.prototype.chapter, []).append(stub)
    out += ["| chapter | served | symbols |", "| --- | --- | --- |"]
    for chapter, members in chapters.items():
        out.append(f"| {chapter} | {sum(1 for s in members if s.target)} | {len(members)} |")
    for chapter, members in chapters.items():
        out += ["", f"## {chapter}", "", "| symbol | how |", "| --- | --- |"]
        out += [f"| {s.symbol} | {how_of(s)} |" for s in members]
    return "\n".join(out) + "\n"
