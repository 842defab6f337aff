# SPDX-License-Identifier: Apache-2.0
"""client.h and stubs.c: every symbol that the library exports. client.syms: their names.

absent.c: the same symbols for the software GPU, which serves some of them.
"""

import re
from dataclasses import dataclass, field

from .headers import DECLARED
from .spec import SpecError
from .text import banner, quoted, wrapped

# A call that names such an object works in the object's context, not in the current one: the
# function that finds the context.
OWNERS = {"CUstream": "stream_context", "const CUlaunchConfig *": "launch_config_context",
          "CUevent": "event_context"}

# What a call can need: the function that tries it.
NEEDS = {"context": "need_context()", "server": "server_link_check(&server)",
         "alive": "context_check()"}

# An object that a handle can name: the function that finds it, its type, and the result if there
# is none; "": the function has a result. local_SYMBOL() gets the object in place of the handle.
HANDLES = {
    "allocation": ("allocation_find", "allocation", "CUDA_ERROR_INVALID_VALUE"),
    "array": ("array_enter({}, false, {})", "array", ""),
    "device": ("device_get", "device", "CUDA_ERROR_INVALID_DEVICE"),
    "event": ("event_find", "event", "CUDA_ERROR_INVALID_HANDLE"),
    "function": ("kernel_find_function", "kernel", "CUDA_ERROR_INVALID_HANDLE"),
    "green": ("green_find", "green", "CUDA_ERROR_INVALID_CONTEXT"),
    "kernel": ("kernel_find_kernel", "kernel", "CUDA_ERROR_INVALID_HANDLE"),
    "mipmap": ("array_enter({}, true, {})", "array", ""),
    "library": ("library_find", "library", "CUDA_ERROR_INVALID_HANDLE"),
    "own_pool": ("pool_find_own", "pool", "CUDA_ERROR_INVALID_VALUE"),
    "pool": ("pool_find", "pool", "CUDA_ERROR_INVALID_VALUE"),
    "stream": ("stream_resolve(context_current, {}, {})", "stream", ""),
    "surface": ("texture_find_surface", "texture", "CUDA_ERROR_INVALID_VALUE"),
    "texture": ("texture_find_texture", "texture", "CUDA_ERROR_INVALID_VALUE"),
}

PER_THREAD = re.compile(r"_pt(ds|sz)$")


@dataclass
class Stub:
    """How the client answers one symbol."""
    prototype: object
    how: str               # local, alias, refused, unserved
    target: str = ""       # the symbol whose local_ function answers
    why: str = ""
    early: bool = False
    implicit: bool = False
    current: bool = False
    checks: list = field(default_factory=list)  # (word, kind, positions of parameters)
    function: str = ""     # which answers in place of local_SYMBOL(), ...
    arguments: list = field(default_factory=list)  # ... with these; they name ...
    names: list = field(default_factory=list)  # ... parameters of the target

    @property
    def symbol(self):
        return self.prototype.symbol

    @property
    def per_thread(self):
        return bool(PER_THREAD.search(self.symbol))


def stub_of(spec, headers, prototype):
    symbol = prototype.symbol
    call = spec.calls.get(symbol)
    plain = PER_THREAD.sub("", symbol)
    if not call and plain != symbol:
        call = spec.calls.get(plain)  # a per-thread symbol follows the plain symbol
    if not call:
        return Stub(prototype, "unserved", why="it is not served yet")
    if call.how == "refused":
        return Stub(prototype, "refused", why=call.why, early="early" in call.flags)
    target = call.target if call.how == "alias" else call.symbol
    answer = spec.calls[target]
    flags = answer.flags
    how = "local" if target == symbol else "alias"
    return Stub(prototype, how, target, early="early" in flags, implicit="implicit" in flags,
                current="current" in flags,
                checks=checks_of(spec, answer, headers.prototypes[target]),
                function=answer.function, arguments=answer.arguments,
                names=[param.name for param in headers.prototypes[target].params])


def checks_of(spec, call, prototype):
    """The checks of a call, with the positions of parameters: an alias names them differently."""
    at = {param.name: i for i, param in enumerate(prototype.params)}
    for check in call.checks:
        for name in check.names:
            if name not in at:
                raise SpecError(spec.path, call.line, f"{call.symbol} has no argument '{name}'")
    return [(check.word, check.kind, [at[name] for name in check.names]) for check in call.checks]


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
    return {at: kind for word, kind, places in stub.checks if word == "handle" for at in places}


def local_params(stub):
    params, objects = [param.declare() for param in stub.prototype.params], objects_of(stub)
    for at, kind in objects.items():
        params[at] = f"struct {HANDLES[kind][1]} *{stub.prototype.params[at].name}"
    if stub.implicit:
        params.append("CUstream implicit")
    return params or ["void"]


def gen_client_h(spec, headers):
    out = [banner("The functions, written by hand, that answer driver functions. The stubs call\n"
                  "them, after the checks of the spec; where a check finds an object by its handle,\n"
                  "the function gets the object. A function on a default stream that is not an\n"
                  "argument gets the stream as `implicit': CU_STREAM_LEGACY or CU_STREAM_PER_THREAD.",
                  "CLIENT_H")]
    out.append('#include "cuda_api.h"\n')
    stubs = stubs_of(spec, headers)
    found = {HANDLES[kind][1] for stub in stubs for kind in objects_of(stub).values()}
    out += [f"struct {name};" for name in sorted(found)] + [""] * bool(found)
    for stub in stubs:
        if stub.how != "local" or stub.function:
            continue
        out.append(wrapped(f"CUresult local_{stub.symbol}(", local_params(stub), ");"))
    out.append("\n#endif")
    return "\n".join(out) + "\n"


HEX = {"CUdeviceptr", "CUdeviceptr_v1", "CUtexObject", "CUsurfObject",
       "CUmemGenericAllocationHandle", "CUgraphConditionalHandle"}
SIGNED = {"int", "EGLint", "long", "long long"}
POINTERS = {"EGLImageKHR", "EGLStreamKHR"}


def trace_type(headers, param):
    """The letter of a parameter's type, and what the tracer gets: client/transport/trace.h."""
    kind, name = param.type, param.name
    resolved = kind
    for _ in range(8):
        resolved = headers.types.get(resolved, resolved)
    if kind == "const char *":
        return "s", [name]
    if kind.endswith("*") or param.array or resolved == "pointer" or kind in POINTERS:
        return "p", [name]
    if resolved == "struct":
        return "o", []
    if resolved in ("float", "double"):
        return "f", [name]
    is_signed = resolved == "enum" or resolved in SIGNED
    return "h" if kind in HEX else "i" if is_signed else "u", [f"(uint64_t){name}"]


def trace_call(headers, stub):
    """A call as the tracer reads it: the string in pieces, and the values of the arguments."""
    types, values = [], []
    for param in stub.prototype.params:
        letter, value = trace_type(headers, param)
        types.append(letter + param.name)
        values += value
    pieces = [stub.symbol + "\\0"] + [kind + "," for kind in types[:-1]] + types[-1:]
    return pieces, values


def owner_of(stub):
    """The expression that finds the context of an object that the call names; or None."""
    for kind, find in OWNERS.items():
        for param in stub.prototype.params:
            if stub.target and not stub.current and param.type == kind:
                return f"{find}({param.name})"
    return None


def values_of(stub):
    """The arguments, with the default stream of a per-thread symbol."""
    return [f"per_thread({param.name})" if stub.per_thread and param.type == "CUstream"
            else param.name for param in stub.prototype.params]


def check_lines(stub):
    """Tries the checks in their order, until one fails."""
    lines, values = [], values_of(stub)
    for i, (word, kind, places) in enumerate(stub.checks):
        condition, result, find = "", "", ""
        if word == "needs":
            result = NEEDS[kind]
        elif word == "nonnull":
            condition = " || ".join(f"!{values[at]}" for at in places)
            result = "CUDA_ERROR_INVALID_VALUE"
        elif not HANDLES[kind][2]:
            result = HANDLES[kind][0].format(values[places[0]], f"&found{places[0]}")
        else:
            find = f"found{places[0]} = {HANDLES[kind][0]}({values[places[0]]});"
            condition, result = f"!found{places[0]}", HANDLES[kind][2]
        lines += check_step(condition, result, find, i == 0)
    return lines


def check_step(condition, result, find, is_first):
    if is_first and not condition:
        return [f"\treturned = {result};"]
    if is_first:
        lines = [f"\t{find}"] if find else []
        return lines + [wrapped("returned = ", [f"{condition} ? {result} : CUDA_SUCCESS"], ";", 1)]
    if find:
        return ["\tif (returned == CUDA_SUCCESS) {", f"\t\t{find}", f"\t\tif ({condition})",
                f"\t\t\treturned = {result};", "\t}"]
    if not condition:
        return ["\tif (returned == CUDA_SUCCESS)", f"\t\treturned = {result};"]
    condition = f"({condition})" if "||" in condition else condition
    return [f"\tif (returned == CUDA_SUCCESS && {condition})", f"\t\treturned = {result};"]


def arguments_of(stub):
    """What the function that answers gets: all arguments, or what the spec says."""
    arguments = values_of(stub)
    for at in objects_of(stub):
        arguments[at] = f"found{at}"
    names = list(stub.names)
    if stub.implicit:
        names.append("implicit")
        arguments.append("CU_STREAM_PER_THREAD" if stub.per_thread else "CU_STREAM_LEGACY")
    if not stub.function:
        return arguments
    values = dict(zip(names, arguments))
    return [re.sub(r"(?<![.\w])[a-zA-Z_]\w*", lambda word: values.get(word.group(), word.group()), one)
            for one in stub.arguments]


def answer_lines(stub):
    """How a symbol is answered by the client."""
    if not stub.target:
        return [wrapped("return route_failed(", ["call", f'refuse(call, "{stub.why}")'], ");", 1)]
    depth = 2 if stub.checks else 1
    function = stub.function or f"local_{stub.target}"
    answer = wrapped(f"returned = {function}(", arguments_of(stub), ");", depth)
    if stub.checks:
        answer = "\n".join(check_lines(stub) + ["\tif (returned == CUDA_SUCCESS)", answer])
    owner = owner_of(stub)
    if owner:
        answer = f"\touter = context_borrow({owner});\n{answer}\n\tcontext_return(outer);"
    return [answer,
            "\treturn likely(returned == CUDA_SUCCESS) ? returned : route_failed(call, returned);"]


def gen_stub(headers, stub):
    prototype = stub.prototype
    params, symbol = prototype.declare_params(), stub.symbol
    names = [param.name for param in prototype.params]
    call, values = trace_call(headers, stub)
    out = []
    if prototype.header not in DECLARED:
        out.append(wrapped(f"EXPORT CUresult CUDAAPI {symbol}(", params, ");"))
    out += [wrapped(f"EXPORT CUresult CUDAAPI {symbol}(", params, ")"), "{"]
    out.append(quoted("static const char call[] = ", call, ";", 1))
    if owner_of(stub):
        out.append("\tstruct context_binding outer;")
    out += [f"\tstruct {HANDLES[kind][1]} *found{at} = NULL;"
            for at, kind in objects_of(stub).items()]
    out += ["\tCUresult returned;", "", "\tif (unlikely(!route_is_open())) {"]
    ask = "route_ask_early" if stub.early else "route_ask"
    out += [f"\t\tstruct entry entry = {ask}();", "", "\t\tif (entry.way == ENTRY_TRACED) {"]
    out.append(wrapped(f"returned = {symbol}(", names, ");", 3))
    out.append(wrapped("return trace_write(", ["call", "entry.start_ns", "returned"] + values,
                       ");", 3))
    out += ["\t\t}", "\t\tif (entry.way == ENTRY_NATIVE)",
            wrapped(f"return real.{symbol}(", names, ");", 3)]
    if not stub.early:
        out += ["\t\tif (entry.way == ENTRY_REFUSED)",
                "\t\t\treturn route_failed(call, entry.result);"]
    out += ["\t}"] + answer_lines(stub)
    return "\n".join(out + ["}\n"])


def gen_stubs_c(spec, headers):
    stubs = stubs_of(spec, headers)
    out = [banner("Every symbol of the driver: where each call of the program enters. Any thread\n"
                  "of the application.\n\n"
                  "Invariant: each function returns a CUresult in every state of the process. Under\n"
                  "ROUTE_NATIVE, the CUresult is that of the real driver.")]
    out.append(STUBS_TOP)
    if any(stub.target and stub.per_thread and p.type == "CUstream"
           for stub in stubs for p in stub.prototype.params):
        out.append(STUBS_PER_THREAD)
    if any(check[1] == "context" for stub in stubs for check in stub.checks):
        out.append(STUBS_CONTEXT)
    if any(stub.function == "answer" for stub in stubs):
        out.append(STUBS_ANSWER)
    for stub in stubs:
        out.append(gen_stub(headers, stub))
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
#include "base.h"
#include "client.h"
#include "client/transport/real.h"
#include "client/transport/route.h"
#include "client/transport/trace.h"
#include "client/context/coredump.h"
#include "client/stream/event.h"
#include "client/stream/green.h"
#include "client/stream/stream.h"
#include "client/memory/advice.h"
#include "client/memory/allocation.h"
#include "client/memory/memory_op.h"
#include "client/memory/pool.h"
#include "client/array/array.h"
#include "client/array/texture.h"
#include "client/copy/box.h"
#include "client/copy/fill.h"
#include "client/module/library.h"
#include "client/graph/node_calls.h"

#define EXPORT __attribute__((visibility("default")))
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


def gen_absent_c(headers):
    out = [banner("Every symbol of the driver, for the software GPU: those that it does not serve. Any\n"
                  "thread.\n\n"
                  "Each function is weak: where tests/softgpu defines the symbol, the linker takes that\n"
                  "definition.")]
    out.append(ABSENT_TOP)
    for prototype in headers.prototypes.values():
        params, symbol = prototype.declare_params(), prototype.symbol
        if prototype.header not in DECLARED:
            out.append(wrapped(f"CUresult {symbol}(", params, ");"))
        out.append(wrapped(f"ABSENT CUresult {symbol}(", params, ")"))
        out.append("{\n\treturn call_absent(__func__);\n}\n")
    return "\n".join(out)


ABSENT_TOP = """\
#include "tests/softgpu/driver/driver.h"

/* The other headers include cuda.h, which has the names of all versions only through driver.h. */
#include <cudaProfiler.h>

#include "cuda_interop.h"

#define ABSENT __attribute__((weak, visibility("default")))
#pragma GCC diagnostic ignored "-Wunused-parameter"
"""
