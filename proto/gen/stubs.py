# SPDX-License-Identifier: Apache-2.0
"""client.h and stubs.c: every symbol that the library exports. client.syms: their names.

absent.c: the same symbols for the software GPU, which serves some of them.
"""

import re
from dataclasses import dataclass

from .headers import DECLARED
from .spec import SpecError
from .text import banner, wrapped

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


def trace_kind(headers, param):
    """The trace_ function of a parameter and its arguments."""
    kind, name = param.type, param.name
    resolved = kind
    for _ in range(8):
        resolved = headers.types.get(resolved, resolved)
    if kind == "const char *":
        return "string", [name]
    if kind.endswith("*") or param.array or resolved == "pointer" or kind in POINTERS:
        return "pointer", [f"(const void *){name}"]
    if kind in HEX:
        return "hex", [name]
    if resolved == "struct":
        return "opaque", []
    if resolved in ("float", "double"):
        return "float", [name]
    return "signed" if resolved == "enum" or resolved in SIGNED else "unsigned", [name]


def trace_line(headers, param):
    kind, value = trace_kind(headers, param)
    return wrapped(f"trace_{kind}(", ["&trace", f'"{param.name}"'] + value, ");", 1)


def owner_of(stub):
    """The expression that finds the context of an object that the call names; or None."""
    for kind, find in OWNERS.items():
        for param in stub.prototype.params:
            if stub.target and not stub.current and param.type == kind:
                return f"{find}({param.name})"
    return None


def answer_lines(stub):
    """How a symbol is answered under ROUTE_MPS."""
    if not stub.target:
        return [wrapped("return refuse(", [f'"{stub.symbol}"', f'"{stub.why}"'], ");", 1)]
    arguments = []
    for param in stub.prototype.params:
        in_thread = stub.per_thread and param.type == "CUstream"
        arguments.append(f"per_thread({param.name})" if in_thread else param.name)
    if stub.implicit:
        arguments.append("CU_STREAM_PER_THREAD" if stub.per_thread else "CU_STREAM_LEGACY")
    owner = owner_of(stub)
    if not owner:
        return [wrapped(f"return local_{stub.target}(", arguments, ");", 1)]
    return [f"\touter = context_borrow({owner});",
            wrapped(f"result = local_{stub.target}(", arguments, ");", 1),
            "\tcontext_return(outer);", "\treturn result;"]


def gen_stub(headers, stub):
    prototype = stub.prototype
    params, symbol = prototype.declare_params(), stub.symbol
    names = [param.name for param in prototype.params]
    out = [wrapped(f"static CUresult enter_{symbol}(", params, ")"), "{"]
    out.append("\tenum route route = route_get();")
    if owner_of(stub):
        out += ["\tstruct context_binding outer;", "\tCUresult result;"]
    out.append("")
    out.append("\tif (unlikely(route == ROUTE_NATIVE))")
    out.append(wrapped(f"return real.{symbol}(", names, ");", 2))
    # An `early' call answers without a server too: if there is none, the program
    # learns the reason from cuInit().
    if not stub.early:
        out.append("\tif (unlikely(route != ROUTE_MPS))\n\t\treturn route_error();")
        out.append("\tif (unlikely(!route_initialised()))\n\t\treturn CUDA_ERROR_NOT_INITIALIZED;")
        out.append("\tif (unlikely(callback_is_running))\n\t\treturn CUDA_ERROR_NOT_PERMITTED;")
    out += answer_lines(stub)
    out.append("}\n")
    out.append(wrapped(f"COLD static CUresult traced_{symbol}(", params, ")"))
    out.append("{\n\tstruct trace trace;\n")
    out.append(f'\ttrace_begin(&trace, "{symbol}");')
    out += [trace_line(headers, param) for param in prototype.params]
    out.append("\ttrace_start(&trace);")
    out.append(wrapped(f"trace.result = enter_{symbol}(", names, ");", 1))
    out.append("\treturn trace_end(&trace);\n}\n")
    if prototype.header not in DECLARED:
        out.append(wrapped(f"EXPORT CUresult CUDAAPI {symbol}(", params, ");"))
    out.append(wrapped(f"EXPORT CUresult CUDAAPI {symbol}(", params, ")"))
    out.append("{\n\tCUresult returned;\n\n\tif (unlikely(!trace_is_off()))")
    out.append(wrapped(f"returned = traced_{symbol}(", names, ");", 2))
    out.append("\telse")
    out.append(wrapped(f"returned = enter_{symbol}(", names, ");", 2))
    out.append("\tif (unlikely(returned != CUDA_SUCCESS))")
    out.append(f'\t\troute_failed("{symbol}", returned);')
    out.append("\treturn returned;\n}\n")
    return "\n".join(out)


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
#include "client.h"

#include "base.h"
#include "client/stream/callback.h"
#include "client/stream/event.h"
#include "client/stream/stream.h"
#include "client/transport/real.h"
#include "client/transport/route.h"
#include "client/transport/trace.h"

#define EXPORT __attribute__((visibility("default")))

/* A separate function, so that calls without a trace do not need its kilobyte of stack. */
#define COLD __attribute__((cold, noinline))
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

#include <cudaProfiler.h>

#include "cuda_interop.h"

#define ABSENT __attribute__((weak, visibility("default")))
#pragma GCC diagnostic ignored "-Wunused-parameter"
"""
