# SPDX-License-Identifier: Apache-2.0
"""client.h and stubs.c: every symbol that the library exports. client.syms: their names.

absent.c: the same symbols for the software GPU, which serves some of them.
"""

import re
from dataclasses import dataclass

from .headers import DECLARED
from .spec import SpecError
from .text import banner, quoted, wrapped

# A call that names such an object works in the object's context, not in the current one: the
# function that finds the context.
OWNERS = {"CUstream": "stream_context", "const CUlaunchConfig *": "launch_config_context",
          "CUevent": "event_context"}

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

    @property
    def symbol(self):
        return self.prototype.symbol

    @property
    def per_thread(self):
        return bool(PER_THREAD.search(self.symbol))


def stub_of(spec, prototype):
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
    flags = spec.calls[target].flags
    how = "local" if target == symbol else "alias"
    return Stub(prototype, how, target, early="early" in flags, implicit="implicit" in flags,
                current="current" in flags)


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
    return [stub_of(spec, prototype) for prototype in headers.prototypes.values()]


def gen_client_h(spec, headers):
    out = [banner("The functions, written by hand, that answer driver functions. The stubs call\n"
                  "them. A function on a default stream that is not an argument gets the stream as\n"
                  "`implicit': CU_STREAM_LEGACY or CU_STREAM_PER_THREAD.", "CLIENT_H")]
    out.append('#include "cuda_api.h"\n')
    for stub in stubs_of(spec, headers):
        if stub.how != "local":
            continue
        params = [param.declare() for param in stub.prototype.params]
        if stub.implicit:
            params.append("CUstream implicit")
        out.append(wrapped(f"CUresult local_{stub.symbol}(", params or ["void"], ");"))
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


def answer_lines(stub):
    """How a symbol is answered by the client."""
    if not stub.target:
        return [wrapped("return route_failed(", ["call", f'refuse(call, "{stub.why}")'], ");", 1)]
    arguments = []
    for param in stub.prototype.params:
        in_thread = stub.per_thread and param.type == "CUstream"
        arguments.append(f"per_thread({param.name})" if in_thread else param.name)
    if stub.implicit:
        arguments.append("CU_STREAM_PER_THREAD" if stub.per_thread else "CU_STREAM_LEGACY")
    answer = wrapped(f"returned = local_{stub.target}(", arguments, ");", 1)
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
    for stub in stubs:
        out.append(gen_stub(headers, stub))
    return "\n".join(out)


STUBS_TOP = """\
#include "base.h"
#include "client.h"
#include "client/transport/real.h"
#include "client/transport/route.h"
#include "client/transport/trace.h"
#include "client/stream/event.h"
#include "client/stream/stream.h"

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
