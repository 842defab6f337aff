# SPDX-License-Identifier: Apache-2.0
"""cuda_api.h and cuda_api.c: every function of the real libcuda in one struct."""

from .text import banner, quoted, wrapped


def gen_cuda_api_h(headers):
    out = [banner("The real libcuda as a struct of functions, named like its symbols.",
                  "CUDA_API_H")]
    out.append(API_TOP)
    out.append("#include <cudaProfiler.h>")
    out.append('\n#include "cuda_interop.h"\n')
    out.append("struct cuda_api {")
    for prototype in headers.prototypes.values():
        out.append(wrapped(f"CUresult (*{prototype.symbol})(", prototype.declare_params(), ");", 1))
    out.append("};\n")
    out.append(API_END)
    return "\n".join(out)


API_TOP = """\
#if !defined(__CUDA_API_VERSION_INTERNAL)
#if defined(__cuda_cuda_h__)
#error "cuda.h renames its functions: include this header before it"
#endif
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>"""

API_END = """\
/* Takes the place of a function that the library does not have: CUDA_ERROR_NOT_SUPPORTED. */
CUresult cuda_api_absent(void);

/* Fills in every function; `sym' is dlsym(). */
void cuda_api_load(struct cuda_api *api, void *dl_handle, void *(*sym)(void *, const char *));

#endif
"""


def gen_cuda_api_c(headers):
    out = [banner("Looks up every function of the real libcuda. The thread that opens the library.\n\n"
                  "Invariant: no member is NULL after cuda_api_load().")]
    out.append('#include "cuda_api.h"\n\n#include <string.h>\n')
    out.append("/* In the order of the struct, each with its NUL. */")
    out.append(quoted("static const char names[] = ", [f"{name}\\0" for name in headers.prototypes],
                      ";\n"))
    out.append(API_LOAD)
    return "\n".join(out)


API_LOAD = """\
CUresult cuda_api_absent(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

void cuda_api_load(struct cuda_api *api, void *dl_handle, void *(*sym)(void *, const char *))
{
	char *to = (char *)api;

	for (const char *name = names; *name; name += strlen(name) + 1, to += sizeof(void *)) {
		void *function = sym(dl_handle, name);

		if (!function)
			function = (void *)cuda_api_absent;
		memcpy(to, &function, sizeof(function));
	}
}
"""
