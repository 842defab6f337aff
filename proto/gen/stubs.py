# SPDX-License-Identifier: Apache-2.0
"""calls_ROOM.h and stubs.c: every symbol that the library exports. client.syms: their names.
"""

import re
from dataclasses import dataclass, field

from .headers import DECLARED
from .spec import Call, SpecError
from .text import banner, quoted, wrapped

# A call that names such an object works in the object's context, not in the current one: the
# function that finds the context.
OWNERS = {"CUstream": "stream_context", "const CUlaunchConfig *": "launch_config_context",
          "CUevent": "event_context"}

# What a call can need: the function that tries it.
NEEDS = {"context": "need_context()", "server": "server_link_check(&server)",
         "alive": "context_check()"}

# An object that a handle can name: the function that finds it, its type, and the result if there
# is none. A function with {} has a result. local_SYMBOL() gets the object in place of the handle.
HANDLES = {
    "active": ("context_named_active({}, {})", "context", "CUDA_ERROR_INVALID_CONTEXT"),
    "allocation": ("allocation_find", "allocation", "CUDA_ERROR_INVALID_VALUE"),
    "array": ("array_enter({}, false, {})", "array", "CUDA_ERROR_INVALID_HANDLE"),
    "context": ("context_named({}, {})", "context", "CUDA_ERROR_INVALID_CONTEXT"),
    "device": ("device_get", "device", "CUDA_ERROR_INVALID_DEVICE"),
    "event": ("event_find", "event", "CUDA_ERROR_INVALID_HANDLE"),
    "exec": ("exec_find", "exec", "CUDA_ERROR_INVALID_VALUE"),
    "function": ("kernel_find_function", "kernel", "CUDA_ERROR_INVALID_HANDLE"),
    "graph": ("graph_find", "graph", "CUDA_ERROR_INVALID_VALUE"),
    "green": ("green_find", "green", "CUDA_ERROR_INVALID_CONTEXT"),
    "kernel": ("kernel_find_kernel", "kernel", "CUDA_ERROR_INVALID_HANDLE"),
    "kernel_node": ("node_find_kernel", "graph_node", "CUDA_ERROR_INVALID_VALUE"),
    "launchable": ("kernel_find", "kernel", "CUDA_ERROR_INVALID_HANDLE"),
    "legacy": ("legacy_launch_find({}, {})", "legacy_launch", "CUDA_ERROR_INVALID_HANDLE"),
    "library": ("library_find", "library", "CUDA_ERROR_INVALID_HANDLE"),
    "mipmap": ("array_enter({}, true, {})", "array", "CUDA_ERROR_INVALID_HANDLE"),
    "node": ("node_find", "graph_node", "CUDA_ERROR_INVALID_VALUE"),
    "own_pool": ("pool_find_own", "pool", "CUDA_ERROR_INVALID_VALUE"),
    "pool": ("pool_find", "pool", "CUDA_ERROR_INVALID_VALUE"),
    "stream": ("stream_resolve(context_current, {}, {})", "stream",
               "CUDA_ERROR_INVALID_HANDLE"),
    "surface": ("texture_find_surface", "texture", "CUDA_ERROR_INVALID_VALUE"),
    "texture": ("texture_find_texture", "texture", "CUDA_ERROR_INVALID_VALUE"),
}

# Launches, copies and the like: the context of their stream costs no call of a function.
FAST = re.compile(r"cu(Launch|Memcpy(?!.toA|Ato)|Memset|EventRecord|StreamWaitEvent|GraphLaunch)")

PER_THREAD = re.compile(r"_pt(ds|sz)$")


@dataclass
class Stub:
    """How the client answers one symbol."""
    prototype: object
    how: str               # local, alias, refused, unserved
    call: Call             # of the symbol, or of that whose alias it is
    checks: list = field(default_factory=list)  # (word, kind, positions of parameters, condition)
    names: list = field(default_factory=list)  # parameters as `call' names them

    @property
    def symbol(self):
        return self.prototype.symbol

    @property
    def target(self):
        """The symbol whose local_ function answers."""
        return self.call.symbol if self.how in ("local", "alias") else ""

    @property
    def implicit(self):
        return "implicit" in self.call.flags

    @property
    def per_thread(self):
        return bool(PER_THREAD.search(self.symbol))


def stub_of(spec, headers, prototype):
    symbol = prototype.symbol
    # A per-thread symbol follows the plain symbol.
    call = spec.calls.get(symbol) or spec.calls.get(PER_THREAD.sub("", symbol))
    if not call:
        return Stub(prototype, "unserved", Call(0, symbol, "unserved", why="it is not served yet"))
    if call.how == "refused":
        return Stub(prototype, "refused", call)
    answer = spec.calls[call.target] if call.how == "alias" else call
    target = headers.prototypes[answer.symbol]
    return Stub(prototype, "local" if answer.symbol == symbol else "alias", answer,
                checks_of(spec, answer, target), [param.name for param in target.params])


def checks_of(spec, call, prototype):
    """The checks of a call, with the positions of parameters: an alias names them differently."""
    at, checks = {param.name: i for i, param in enumerate(prototype.params)}, []
    for check in call.checks:
        names = check.names if check.word != "refuses" else []
        for name in names:
            if name not in at:
                raise SpecError(spec.path, call.line, f"{call.symbol} has no argument '{name}'")
        condition = "" if names else "".join(check.names)[1:-1]
        checks.append((check.word, check.kind, [at[name] for name in names], condition))
    return checks


def types_of(headers, symbol):
    return [(param.type, param.array) for param in headers.prototypes[symbol].params]


def stubs_of(spec, headers):
    for call in spec.calls.values():
        if call.symbol not in headers.prototypes:
            raise SpecError(spec.path, call.line, f"the headers have no {call.symbol}")
    for call in spec.calls.values():
        if call.how == "alias" and types_of(headers, call.symbol) != types_of(headers, call.target):
            raise SpecError(spec.path, call.line,
                            f"{call.symbol} is not {call.target}: their arguments differ")
    return [stub_of(spec, headers, prototype) for prototype in headers.prototypes.values()]


def objects_of(stub):
    """{position of a handle that the stub looks up: its kind}"""
    return {at: kind for word, kind, places, _ in stub.checks if word == "handle" for at in places}


def local_params(stub):
    params, objects = [param.declare() for param in stub.prototype.params], objects_of(stub)
    for at, kind in objects.items():
        params[at] = f"struct {HANDLES[kind][1]} *{stub.prototype.params[at].name}"
    if stub.implicit:
        params.append("CUstream implicit")
    return params or ["void"]


def gen_calls_room_h(spec, headers, room):
    out = [banner(f"The driver functions that the room {room} of the client answers, written by hand.\n"
                  "The stubs call them, after the checks of the spec; where a check finds an object by\n"
                  "its handle, the function gets the object. A function on a default stream that is not\n"
                  "an argument gets the stream as `implicit': CU_STREAM_LEGACY or CU_STREAM_PER_THREAD.",
                  f"CALLS_{room.upper()}_H")]
    out.append('#include "cuda_api.h"\n\n/* The checks of the spec are all that some arguments are for. */')
    out.append('#pragma GCC diagnostic ignored "-Wunused-parameter"\n')
    stubs = [stub for stub in stubs_of(spec, headers)
             if stub.how == "local" and stub.call.is_by_hand and stub.call.room == room]
    found = {HANDLES[kind][1] for stub in stubs for kind in objects_of(stub).values()}
    out += [f"struct {name};" for name in sorted(found)] + [""] * bool(found)
    out += [wrapped(f"CUresult local_{stub.symbol}(", local_params(stub), ");") for stub in stubs]
    return "\n".join(out + ["", "#endif"]) + "\n"


HEX = {"CUdeviceptr", "CUdeviceptr_v1", "CUtexObject", "CUsurfObject",
       "CUmemGenericAllocationHandle", "CUgraphConditionalHandle"}

# How an argument is passed: the letter of its class, by the C type behind its own.
CLASSES = {"pointer": "p", "enum": "u", "int": "i", "unsigned int": "u", "unsigned": "u",
           "uint32_t": "u", "size_t": "l", "unsigned long long": "l", "uint64_t": "l",
           "unsigned short": "h", "unsigned char": "c", "float": "f", "double": "d",
           "long": "s", "long long": "s", "EGLImageKHR": "p", "EGLStreamKHR": "p", "EGLint": "i",
           "GLuint": "u", "GLenum": "u", "VdpDevice": "u", "VdpVideoSurface": "u",
           "VdpOutputSurface": "u"}
CLASS_TYPES = {"p": "const void *", "i": "int", "u": "unsigned", "l": "uint64_t", "h": "uint16_t",
               "c": "uint8_t", "f": "float", "d": "double", "s": "int64_t"}


def type_behind(headers, name):
    """The type of CLASSES, or `struct', for which a type stands."""
    while name not in CLASSES and name in headers.types:
        name = headers.types[name]
    return name


def class_of(headers, param):
    """The class of an argument; a struct passed by value has its own type as class."""
    if param.type.endswith("*") or param.array:
        return "p"
    resolved = type_behind(headers, param.type)
    return param.type if resolved == "struct" else CLASSES[resolved]


def classes_of(headers, stub):
    return tuple(class_of(headers, param) for param in stub.prototype.params)


def asker_of(classes):
    """The function that asks for the way of calls with such arguments."""
    return "ask_" + "".join(one if one in CLASS_TYPES else f"_{one}_" for one in classes)


def trace_letter(headers, param):
    """How the tracer shows an argument: client/transport/trace.h."""
    kind, passed = param.type, class_of(headers, param)
    if kind == "const char *":
        return "s"
    if passed not in CLASS_TYPES:
        return "o"
    if passed in "pfd":
        return passed.replace("d", "f")
    is_signed = passed in "is" or type_behind(headers, kind) == "enum"
    return "h" if kind in HEX else "i" if is_signed else "u"


def gen_asker(classes):
    """What calls with such arguments do if they cannot be served at once."""
    name = asker_of(classes)
    kinds = [CLASS_TYPES.get(one, one) for one in classes]
    names = [f"a{i}" for i in range(len(classes))]
    params = [f"{kind}{'' if kind.endswith('*') else ' '}{name}" for kind, name in zip(kinds, names)]
    values = [value if one in "pfd" else f"(uint64_t){value}"
              for one, value in zip(classes, names) if one in CLASS_TYPES]
    own = ["const struct call *call", "any_function served"]
    out = [wrapped(f"static COLD CUresult {name}(", params + own, ")"), "{"]
    out += [wrapped("CUresult (*next)(", kinds or ["void"], ");", 1), "\tstruct entry entry;", "",
            "\tnext = (void *)way_of(call, served, &entry);", "\tif (entry.way == ENTRY_TRACED) {",
            wrapped(f"entry.result = {name}(", names + ["call", "served"], ");", 2),
            wrapped("return trace_write(", ["call->text", "entry.start_ns", "entry.result"] + values,
                    ");", 2), "\t}",
            wrapped("return ended(", ["call", f"next ? next({', '.join(names)}) : entry.result"],
                    ");", 1), "}", ""]
    return "\n".join(out)


def owner_of(stub):
    """The expression that finds the context of an object that the call names; or None."""
    for kind, find in OWNERS.items():
        for param in stub.prototype.params:
            if stub.target and "current" not in stub.call.flags and param.type == kind:
                return f"{find}({param.name})"
    return None


def values_of(stub):
    """The arguments, with the default stream of a per-thread symbol."""
    return [f"per_thread({param.name})" if stub.per_thread and param.type == "CUstream"
            else param.name for param in stub.prototype.params]


def steps_of(stub):
    """The checks in their order: what to do first, the conditions of a refusal, its result. Without
    conditions the first part gets the result."""
    steps, values, known = [], values_of(stub), {}
    for word, kind, places, condition in (check for check in stub.checks if check[1] != "graphs"):
        find, conditions, result = "", [], kind
        if word == "needs":
            find = f"returned = {NEEDS[kind]};"
        elif word == "nonnull":
            conditions, result = [f"!{values[at]}" for at in places], "CUDA_ERROR_INVALID_VALUE"
        elif word == "refuses":
            conditions = in_call(stub, condition, known).split(" || ")
        else:
            function, result = HANDLES[kind][0], HANDLES[kind][2]
            value, found = values[places[0]], f"found{places[0]}"
            known[places[0]] = kind
            if "{" in function:
                find = f"returned = {function.format(value, '&' + found)};"
            else:
                find, conditions = f"{found} = {function}({value});", [f"!{found}"]
        if steps and conditions and not find and steps[-1][1] and steps[-1][2] == result:
            steps[-1][1].extend(conditions)
        else:
            steps.append((find, conditions, result))
    return steps


def in_call(stub, text, objects=None):
    """An expression of the spec, with the arguments and the objects that the stub has."""
    arguments = values_of(stub)
    for at in objects_of(stub) if objects is None else objects:
        arguments[at] = f"found{at}"
    values = dict(zip(stub.names, arguments))
    if stub.implicit:
        values["implicit"] = "CU_STREAM_PER_THREAD" if stub.per_thread else "CU_STREAM_LEGACY"
    return re.sub(r"(?<![.>\w])[a-zA-Z_]\w*",
                  lambda word: values.get(word.group(), word.group()), text)


def arguments_of(stub):
    """What the function that answers gets: all arguments, or what the spec says."""
    call = stub.call
    names = call.gives or (call.arguments if call.function else stub.names + ["implicit"] * stub.implicit)
    return [in_call(stub, one) for one in names]


def is_plain(stub):
    """Whether local_SYMBOL() alone answers, with the arguments of the symbol."""
    return (stub.call.is_by_hand and not stub.checks and not stub.implicit and not owner_of(stub)
            and values_of(stub) == [param.name for param in stub.prototype.params])


def is_fast(stub):
    return bool(FAST.match(stub.symbol)) and not stub.checks


def gen_answer(stub):
    """The checks of a call, then the function that answers."""
    arguments, objects, owner = arguments_of(stub), objects_of(stub), owner_of(stub)
    steps = steps_of(stub)
    out = [wrapped(f"static {'INLINE' if is_fast(stub) else 'NOINLINE'} CUresult answer_{stub.symbol}(",
                   stub.prototype.declare_params(), ")"), "{"]
    if owner:
        out += ["\t_cleanup_(context_return) _unused_ const struct context_binding outer =",
                f"\t\tcontext_borrow({owner});"]
    out += [f"\tstruct {HANDLES[kind][1]} *found{at} = NULL;" for at, kind in objects.items()]
    if any(not conditions for _, conditions, _ in steps):
        out.append("\tCUresult returned;")
    # The lock of all graphs, for the checks and the call.
    if any(kind == "graphs" for _, kind, _, _ in stub.checks):
        out.append("\tGRAPHS_LOCKED;")
    out += [""] * (len(out) > 2)
    for find, conditions, result in steps:
        out += [f"\t{find}"] * bool(find)
        out += ([wrapped("if (", conditions, ")", 1, " ||"), f"\t\treturn {result};"] if conditions
                else ["\tif (returned != CUDA_SUCCESS)", "\t\treturn returned;"])
    if stub.call.gives or stub.call.does:
        out += [f"\t*{arguments[0]} = {arguments[1]};" if stub.call.gives
                else "\t" + in_call(stub, stub.call.does).replace("; ", ";\n\t") + ";",
                "\treturn CUDA_SUCCESS;"]
    else:
        function = stub.call.function or f"local_{stub.target}"
        out.append(wrapped(f"return {function}(", arguments, ");", 1))
    return "\n".join(out + ["}", ""])


def gen_stub(headers, stub, whys):
    prototype = stub.prototype
    params, symbol = prototype.declare_params(), stub.symbol
    names = [param.name for param in prototype.params]
    types = [trace_letter(headers, param) + param.name for param in prototype.params]
    why = 0 if stub.target else whys.index(stub.call.why)
    text = quoted(f"\t{{TEXT({symbol}, ", [one + "," for one in types[:-1]] + types[-1:], ")}};")
    words = [f"REAL_AT({symbol})", "EARLY" if "early" in stub.call.flags else "LATE", str(why)]
    opening = f"static const struct call call_{symbol} = {{"
    out = ([f"{opening}{', '.join(words)},", text, ""] if "\n" in text
           else [wrapped(opening, words + [text.strip()[:-2]], "};"), ""])
    plain = stub.target and is_plain(stub)
    answer = f"local_{stub.target}" if plain else f"answer_{symbol}" if stub.target else "NULL"
    if stub.target and not plain:
        out.append(gen_answer(stub))
    asked = answer
    if stub.target and not plain and is_fast(stub):
        asked = f"asked_{symbol}"
        out += [wrapped(f"static COLD CUresult {asked}(", params, ")"), "{",
                wrapped(f"return {answer}(", names, ");", 1), "}", ""]
    if prototype.header not in DECLARED:
        out.append(wrapped(f"EXPORT CUresult CUDAAPI {symbol}(", params, ");"))
    out += [wrapped(f"EXPORT CUresult CUDAAPI {symbol}(", params, ")"), "{",
            "\tif (unlikely(!route_is_open()))",
            wrapped(f"return {asker_of(classes_of(headers, stub))}(",
                    names + [f"&call_{symbol}", f"(any_function){asked}" if stub.target else "NULL"],
                    ");", 2)]
    if not stub.target:
        return "\n".join(out + [f"\treturn refused(&call_{symbol});", "}\n"])
    call = f"{answer}({', '.join(names)})"
    return "\n".join(out + [wrapped("return ended(", [f"&call_{symbol}", call], ");", 1), "}\n"])


def gen_stubs_c(spec, headers):
    stubs = stubs_of(spec, headers)
    out = [banner("Every symbol of the driver: where each call of the program enters. Any thread\n"
                  "of the application.\n\n"
                  "Invariant: each function returns a CUresult in every state of the process. Under\n"
                  "ROUTE_NATIVE, the CUresult is that of the real driver.")]
    calls = "".join(f'#include "calls_{room}.h"\n' for room in sorted(spec.call_rooms()))
    out.append(STUBS_TOP.replace("@CALLS@\n", calls))
    if any(stub.target and stub.per_thread and p.type == "CUstream"
           for stub in stubs for p in stub.prototype.params):
        out.append(STUBS_PER_THREAD)
    if any(check[1] == "context" for stub in stubs for check in stub.checks):
        out.append(STUBS_CONTEXT)
    if any(stub.call.function == "answer" for stub in stubs):
        out.append(STUBS_ANSWER)
    whys = [""] + sorted({stub.call.why for stub in stubs if not stub.target})
    out.append("/* Why the client refuses some calls. */\nstatic const char *const whys[] = {")
    out += [f'\t"{why}",' for why in whys] + ["};", "", STUBS_REFUSED]
    out += [gen_asker(classes) for classes in sorted({classes_of(headers, stub) for stub in stubs})]
    out += [gen_stub(headers, stub, whys) for stub in stubs]
    return "\n".join(out)


STUBS_ANSWER = """\
static CUresult answer(CUresult result)
{
	return result;
}
"""

STUBS_CONTEXT = """\
static __attribute__((noinline)) CUresult need_context(void)
{
	struct context *context;

	return context_enter(&context);
}
"""

STUBS_TOP = """\
#include <string.h>

#include "base.h"
@CALLS@
#include "wire.h"
#include "client/transport/real.h"
#include "client/transport/route.h"
#include "client/transport/trace.h"
#include "client/context/coredump.h"
#include "client/stream/context_events.h"
#include "client/stream/event.h"
#include "client/stream/green.h"
#include "client/stream/stream.h"
#include "client/memory/advice.h"
#include "client/memory/allocation.h"
#include "client/memory/host.h"
#include "client/memory/ipc.h"
#include "client/memory/memory_op.h"
#include "client/memory/pool.h"
#include "client/memory/pool_calls.h"
#include "client/array/array.h"
#include "client/array/texture.h"
#include "client/copy/box.h"
#include "client/copy/copy.h"
#include "client/copy/fill.h"
#include "client/module/eager.h"
#include "client/module/library.h"
#include "client/launch/launch.h"
#include "client/launch/occupancy.h"
#include "client/graph/conditional.h"
#include "client/graph/exec.h"
#include "client/graph/graph.h"
#include "client/graph/node_calls.h"
#include "send.h"

#define EXPORT __attribute__((visibility("default")))
#define COLD __attribute__((cold, noinline))
#define INLINE inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

typedef void (*any_function)(void);

/* A symbol: where the real libcuda has it, and its text for trace_write(). */
struct call {
	uint16_t real_at;
	bool is_early; /* valid before cuInit() */
	uint8_t why;   /* of `whys'; 0: the client answers it */
	char text[];
};

#define EARLY true
#define LATE false

/* The text is the symbol, NUL, and the arguments as trace.h describes them. */
#define TEXT(symbol, types) #symbol "\\0" types
#define REAL_AT(symbol) (offsetof(struct cuda_api, symbol) / sizeof(any_function))
"""

STUBS_REFUSED = """\
static COLD CUresult refused(const struct call *call)
{
	return route_failed(call->text, refuse(call->text, whys[call->why]));
}

static inline CUresult ended(const struct call *call, CUresult result)
{
	return likely(result == CUDA_SUCCESS) ? result : route_failed(call->text, result);
}

/* The function that answers a call which cannot be served at once; NULL: entry->result does. */
static COLD any_function way_of(const struct call *call, any_function served, struct entry *entry)
{
	*entry = route_ask(call->real_at, call->is_early);
	if (entry->way == ENTRY_NATIVE)
		return ((const any_function *)&real)[call->real_at];
	if (entry->way != ENTRY_SERVED)
		return NULL;
	if (!served)
		entry->result = refuse(call->text, whys[call->why]);
	return served;
}
"""

STUBS_PER_THREAD = """\
/* In a per-thread symbol, the default stream is that of the thread. */
static CUstream per_thread(CUstream stream)
{
	return stream ? stream : CU_STREAM_PER_THREAD;
}
"""


def gen_client_syms(headers):
    lines = ["# The symbols of the driver, and the function that client/transport/dlopen.c redirects.",
             "# Made by proto/gen.py.",
             "{", "global:", "\tdlopen;"]
    lines += [f"\t{symbol};" for symbol in headers.prototypes]
    return "\n".join(lines + ["local:", "\t*;", "};"]) + "\n"


def gen_symbols_h(headers):
    """For tests: without a guard, as each includer defines SYMBOL."""
    lines = ["/* SPDX-License-Identifier: Apache-2.0 */", "",
             "/*", " * SYMBOL(NAME) for each symbol that the library exports.", " *",
             " * Made by proto/gen.py.", " */", ""]
    return "\n".join(lines + [f"SYMBOL({symbol})" for symbol in headers.prototypes]) + "\n"
