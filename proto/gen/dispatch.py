# SPDX-License-Identifier: Apache-2.0
"""dispatch.h, do_ROOM.h and dispatch.c: the server's decoders: checks, object look-ups, the handler's call."""

from .spec import HEAD_SIZE, layout
from .text import banner, wrapped
from .wire import in_params, op_macro, out_params, prototype, rule_checks


# A handler that would have as many parameters gets as many numbers in the message.
PARAMS_MANY = 8
NUMBERS_MANY = 3
TAIL_TYPES = {"string": "char", "bytes": "void"}


def do_params(spec, message):
    params = ["struct session *session"]
    if not is_wide(spec, message):
        params += in_params(spec, message, lambda one: f"struct {one.type} *{one.name}")
        return params + out_params(spec, message)
    params += [f"struct {one.type} *{one.name}" for one in message.fields if one.kind == "handle"]
    params.append(f"const struct msg_{message.name} *msg")
    for one in message.of(True, True):
        kind = spec.c_type(one.type) if one.kind == "list" else TAIL_TYPES[one.kind]
        params.append(f"const {kind} *{one.name}")
    return params + out_params(spec, message)


def is_wide(spec, message):
    n_numbers = sum(one.is_in and one.kind not in ("handle", "string") for one in message.fields)
    n_params = 1 + len(in_params(spec, message, str) + out_params(spec, message))
    return n_params >= PARAMS_MANY and n_numbers >= NUMBERS_MANY


def number_name(spec, message, name):
    """How a handler calls a number of its message."""
    return f"msg->{name}" if is_wide(spec, message) else name


def gen_dispatch_h(spec):
    out = [banner("A client's message, from bytes to the call of its handler. Worker thread of the\n"
                  "session.", "DISPATCH_H")]
    out.append('#include <cuda.h>\n\n#include "wire.h"\n')
    out.append("struct session;")
    out += [f"struct {name};" for name in spec.handles]
    out.append(REPLY)
    out.append("/* The object of a session with an ID of its client; NULL if there is none. */")
    out += [f"struct {name} *session_{name}(struct session *session, uint32_t id);"
            for name in spec.handles]
    out.append("\n/* After a message that makes, changes or ends an object: server/session/recorded.h. */")
    out.append("void recorded_keep(\n"
               "\tstruct session *session, const struct message_head *head, const struct reply *reply);")
    out.append("\n/*\n * The address that the driver knows, mostly the same one, if all `size' bytes from `address' are\n"
               " * memory of this session. 0: they are not.\n */")
    out.append("uint64_t memory_find(struct session *session, uint64_t address, uint64_t size);\n")
    out.append("#endif")
    return "\n".join(out) + "\n"


def gen_do_room_h(spec, room):
    messages = [one for one in spec.messages if one.server_room == room]
    out = [banner(f"The handlers of messages in the room {room} of the server, written by hand. Tails lie\n"
                  "in the private copy of the message and are valid as long as it is. Results reach\n"
                  "the client only with CUDA_SUCCESS.", f"DO_{room.upper()}_H")]
    out.append('#include "dispatch.h"\n')
    wide = [f"struct msg_{one.name};" for one in messages if is_wide(spec, one)]
    out += ["/* Of messages.h. */"] * bool(wide) + wide + [""] * bool(wide)
    out += [prototype("CUresult", f"do_{one.name}", do_params(spec, one), ");") for one in messages]
    return "\n".join(out + ["", "#endif"]) + "\n"


REPLY = """
/* A reply, before the worker puts it into the page. */
struct reply {
	uint32_t result; /* CUresult */
	uint32_t size;   /* bytes used of `body'; on failure 0, but of `sync always' */
	_Alignas(8) uint8_t body[REPLY_MAX - sizeof(struct reply_head)];
};

/*
 * Serves one message that lies in private memory, 8-aligned, with `msg->size'
 * bytes readable. 0: `reply' is filled in, also for a message without a reply.
 * -EBADMSG: malformed; `*ret_why' names message, field and rule.
 */
int dispatch_message(struct session *session, const struct message_head *msg, struct reply *reply,
	const char **ret_why);
"""


def bad(message, field, rule, indent=1):
    return "\t" * indent + f'return malformed(ret_why, "{message.name}: {field}: {rule}");'


def fixed_checks(spec, message):
    lines = []
    members, _ = layout(spec, message.of(True), HEAD_SIZE)
    for kind, _, name, _, _ in members:
        if kind == "pad":
            lines += [f"\tif (msg->{name} != 0)", bad(message, name, "not zero", 2)]
    for one in message.of(True, False):
        value = f"msg->{one.name}" + ("[i]" if one.kind == "array" else "")
        for condition, rule in rule_checks(one, value, ""):
            if one.kind == "array":
                lines += [f"\tfor (unsigned i = 0; i < {one.count}; i++)", f"\t\tif ({condition})",
                          bad(message, one.name, rule, 3)]
            else:
                lines += [f"\tif ({condition})", bad(message, one.name, rule, 2)]
    return lines


def tail_size(spec, one):
    size = f"msg->{one.size_name}"
    if one.kind == "list":
        size += f" * (uint64_t)sizeof({spec.c_type(one.type)})"
    return size


def tail_checks(spec, message):
    """Checks the lengths by their rules, then the sum, then the content of the tails."""
    lines, tails = [], message.of(True, True)
    for one in tails:
        for condition, rule in rule_checks(one, "", f"msg->{one.size_name}"):
            lines += [f"\tif ({condition})", bad(message, one.name, rule, 2)]
    for one in tails:
        lines.append(f"\t{one.name}_at = sum;")
        lines.append(f"\tsum += ALIGN_UP((uint64_t){tail_size(spec, one)}, MESSAGE_ALIGN);")
    lines += ["\tif (sum != head->size)", bad(message, "size", "exact", 2)]
    for one in tails:
        lines.append(f"\t{one.name} = (const uint8_t *)head + {one.name}_at;")
        lines += [f"\tif (!padding_ok({one.name}, {tail_size(spec, one)}))",
                  bad(message, one.name, "padding", 2)]
        if one.kind == "string":
            lines += [f"\tif (!string_ok({one.name}, msg->{one.size_name}))",
                      bad(message, one.name, "one NUL, at its end", 2)]
    return lines


def object_lines(message, is_wide_one):
    lines = []
    for one in message.of(True, False):
        if one.kind == "handle":
            lines += [f"\t{one.name} = session_{one.type}(session, msg->{one.name});",
                      f"\tif (!{one.name})",
                      "\t\treturn refused(reply, CUDA_ERROR_INVALID_HANDLE);"]
    for one in message.of(True, False):
        if one.kind != "devptr":
            continue
        if is_wide_one:  # the handler takes the address from the message
            lines.append(f"\tif (!msg->{one.name} || memory_find("
                         f"session, msg->{one.name}, msg->{one.length}) != msg->{one.name})")
        else:
            lines += [f"\t{one.name} = memory_find(session, msg->{one.name}, msg->{one.length});",
                      f"\tif (!{one.name})"]
        lines.append("\t\treturn refused(reply, CUDA_ERROR_INVALID_VALUE);")
    return lines


def arguments_of(spec, message):
    arguments, wide = ["session"], is_wide(spec, message)
    if wide:
        arguments += [one.name for one in message.fields if one.kind == "handle"] + ["msg"]
        arguments += [f"({'const char' if one.kind == 'string' else 'const void'} *){one.name}"
                      for one in message.of(True, True)]
    for one in message.of(True) if not wide else []:
        if one.kind in ("handle", "devptr"):
            arguments.append(one.name)
        elif one.kind == "string":
            arguments.append(f"(const char *){one.name}")
        elif one.kind == "bytes":
            arguments += [one.name, f"msg->{one.size_name}"]
        elif one.kind == "list":
            arguments += [f"(const void *){one.name}", f"msg->{one.size_name}"]
        else:
            arguments.append(f"msg->{one.name}")
    for one in message.of(False):
        if one.kind == "list":
            arguments += ["(void *)(body + 1)", str(one.rules["max"]),
                          f"&body->{one.size_name}"]
        elif one.kind == "array":
            arguments.append(f"body->{one.name}")
        else:
            arguments.append(f"&body->{one.name}")
    return arguments


def answer_lines(spec, message):
    size, lines = "sizeof(*body)", []
    for one in message.of(False, True):
        lines.append(f"\tassert(body->{one.size_name} <= {one.rules['max']});")
        tail = f"body->{one.size_name} * sizeof({spec.c_type(one.type)})"
        size = f"(uint32_t)(sizeof(*body) + {tail})"
    if message.answers_always:
        return lines + [wrapped("reply->size = ", [size], ";", 1), "\treturn 0;"]
    return lines + ["\tif (reply->result == CUDA_SUCCESS)",
                    wrapped("reply->size = ", [size], ";", 2), "\treturn 0;"]


def gen_one(spec, message):
    tails = message.of(True, True)
    answer, fields = message.of(False), message.of(True)
    params = ["struct session *session", "const struct message_head *head", "struct reply *reply",
              "const char **ret_why"]
    out = [wrapped(f"static int dispatch_{message.name}(", params, ")"), "{"]
    if fields:
        out.append(f"\tconst struct msg_{message.name} *msg = (const void *)head;")
    if answer:
        out.append(f"\tstruct reply_{message.name} *body = (void *)reply->body;")
    out += [f"\tstruct {one.type} *{one.name};" for one in fields if one.kind == "handle"]
    if not is_wide(spec, message):
        out += [f"\tuint64_t {one.name};" for one in fields if one.kind == "devptr"]
    if tails:
        out.append("\tuint64_t sum = sizeof(*msg);")
        out += [f"\tuint64_t {one.name}_at;" for one in tails]
        out += [f"\tconst uint8_t *{one.name};" for one in tails]
    if len(out) > 2:
        out.append("")
    size = "sizeof(*msg)" if fields else "sizeof(*head)"
    out += [f"\tif (head->size {'<' if tails else '!='} {size})", bad(message, "size", "exact", 2)]
    out += slot_lines(message)
    out += fixed_checks(spec, message)
    if tails:
        out += tail_checks(spec, message)
    out += object_lines(message, is_wide(spec, message))
    if answer:
        out.append("\tmemset(body, 0, sizeof(*body));")
    out.append(wrapped(f"reply->result = do_{message.name}(", arguments_of(spec, message), ");", 1))
    if answer:
        out += answer_lines(spec, message)
    else:
        out.append("\treturn 0;")
    if message.is_recorded:
        out.insert(-1 if not answer else out.index("\treturn 0;"), "\trecorded_keep(session, head, reply);")
    out.append("}")
    return "\n".join(out)


def slot_lines(message):
    if message.is_sync:
        return ["\tif (head->reply < 1 || head->reply > REPLY_SLOTS)",
                bad(message, "reply", "a slot", 2)]
    return ["\tif (head->reply != 0)", bad(message, "reply", "no slot", 2)]


def gen_dispatch_c(spec):
    out = [banner("The decoders of a client's messages. Worker thread of the session.\n\n"
                  "Invariant: a handler gets only arguments that satisfy every rule of the spec,\n"
                  "objects that exist, and memory of its own session.")]
    out.append('#include "dispatch.h"\n\n#include <assert.h>\n#include <string.h>\n')
    out.append('#include "messages.h"')
    out += [f'#include "do_{room}.h"' for room in sorted(spec.server_rooms())] + [""]
    out.append(HELPERS)
    kinds = {f.kind for m in spec.messages for f in m.fields if f.is_in}
    if kinds & {"string", "bytes", "list"}:
        out.append(PADDING)
    if "string" in kinds:
        out.append(STRING)
    if kinds & {"handle", "devptr"}:
        out.append(REFUSED)
    for message in spec.messages:
        out.append(gen_one(spec, message) + "\n")
    out.append(DISPATCH_HEAD)
    for message in spec.messages:
        out.append(f"\tcase {op_macro(message)}:")
        out.append(f"\t\treturn dispatch_{message.name}(session, msg, reply, ret_why);")
    out.append('\tdefault:\n\t\treturn malformed(ret_why, "unknown message");\n\t}\n}')
    return "\n".join(out) + "\n"


HELPERS = """\
static int malformed(const char **ret_why, const char *why)
{
	*ret_why = why;
	return -EBADMSG;
}
"""

REFUSED = """\
static int refused(struct reply *reply, CUresult result)
{
	reply->result = result;
	return 0;
}
"""

PADDING = """\
/* Whether the padding of a tail up to MESSAGE_ALIGN is zero. */
static bool padding_ok(const uint8_t *tail, uint64_t size)
{
	for (uint64_t i = size; i % MESSAGE_ALIGN != 0; i++)
		if (tail[i] != 0)
			return false;
	return true;
}
"""

STRING = """\
static bool string_ok(const uint8_t *string, uint32_t size)
{
	return memchr(string, '\\0', size) == string + size - 1;
}
"""

DISPATCH_HEAD = """\
int dispatch_message(struct session *session, const struct message_head *msg, struct reply *reply,
	const char **ret_why)
{
	reply->result = CUDA_SUCCESS;
	reply->size = 0;
	if (msg->reserved != 0)
		return malformed(ret_why, "head: reserved: not zero");
	switch (msg->op) {"""
