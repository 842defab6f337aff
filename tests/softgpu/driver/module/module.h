/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODULE_H
#define MODULE_H

/*
 * Code: a library is an image; a module is the image in one context, with separate
 * variables. A kernel belongs to a library, a function to a module.
 *
 * All under the driver's lock. A module outlives its handle while work or a
 * graph refers to it.
 */

#include "tests/softgpu/driver/driver.h"
#include "tests/softgpu/ptx/ptx.h"

struct context;
struct legacy_launch;
struct library;

/* A translated image; at most one module's variables are bound to it. */
struct code {
	uint32_t refs;
	bool is_bound;
	struct ptx_module *ptx;
};

/* What cuFuncSetAttribute() and cuKernelSetAttribute() change. */
struct settings {
	int max_dynamic_shared; /* bytes; -1: the default */
	int carveout;           /* percent, or -1 */
	int cluster[3];
	int is_non_portable;
	int cluster_policy;
	CUfunc_cache cache;
};

struct function {
	struct object object;
	struct module *module; /* not owned: it contains the function */
	const struct ptx_kernel *kernel;
	struct settings own;
	struct settings *settings;    /* of this function, or of the library's kernel */
	struct legacy_launch *legacy; /* NULL: no call has set any */
};

/* Memory for variables; all zero if there are none. */
struct variables {
	uint64_t address;
	uint64_t id; /* of its range */
};

struct module {
	struct object object;
	struct module *next;         /* context::modules */
	struct module *library_next; /* library::modules */
	struct context *context;     /* not owned; NULL once closed */
	struct library *library;     /* not owned; NULL for cuModuleLoad */
	uint32_t refs;
	struct code *code;
	struct variables own;     /* the device's */
	struct variables managed; /* of a module without a library; a library's modules share the
				     library's */
	struct function *functions;
	uint32_t n_functions;
};

struct kernel {
	struct object object;
	struct library *library; /* not owned: it contains the kernel */
	uint32_t index;
	struct settings settings;
};

/*
 * A copy of the program's image without its wrapper; of a linked image, its parts.
 * The caller frees the copy.
 */
CUresult image_copy(const void *image, void **ret_copy, size_t *ret_size);

/* The whole file, followed by a NUL. The caller frees. */
CUresult image_read(const char *path, void **ret_image, size_t *ret_size);

/* JIT options: only the log buffers and the number of registers have an effect. */
struct jit {
	unsigned n_options;
	CUjit_option *options;
	void **values;
};

/* CU_JIT_MAX_REGISTERS; 0: no limit. */
uint32_t jit_max_regs(const struct jit *jit);

/* device_runtime.c: whether an archive is the device runtime; and its text for this linker. */
bool device_runtime_is(const void *archive, size_t size);
extern const char device_runtime_ptx[];

/* Fills the logs that the program wants. */
void jit_say(const struct jit *jit, const char *error, const char *info);

/* Translates; this is slow and needs no lock. The log goes to `jit' and stderr. */
CUresult code_new(const void *image, size_t size, const struct jit *jit, struct code **ret_code);
void code_unref(struct code *code);

/*
 * Creates the managed variables of an image, with their initial values; they must
 * exist before there is a context.
 */
CUresult variables_new_managed(struct code *code, struct variables *ret_variables);
void variables_free(const struct variables *variables);

/*
 * Binds the code to new variables in `context', and to `managed' if there is a
 * library. Takes a reference to `code'.
 */
CUresult module_new(struct context *context, struct code *code, struct library *library,
	const struct variables *managed, struct module **ret_module);
void module_ref(struct module *module);
void module_unref(struct module *module);

/* Ends the module's handle and those of its functions. */
void module_close(struct module *module);

/* The address and size of a variable; false if no variable has that name. */
bool module_variable(
	const struct module *module, const char *name, CUdeviceptr *dptr, size_t *bytes);

void settings_init(struct settings *settings);

/* library.c: the module of a library in a context, created at its first use. */
CUresult library_module(
	struct library *library, struct context *context, struct module **ret_module);
void library_forget(struct module *module);

/* The kernel or function of a handle, as a function in `context'. */
CUresult function_get(CUfunction handle, struct context *context, struct function **ret_function);

/* NULL: its module belongs to no library. */
CUkernel function_kernel(const struct function *function);

/* The attributes of a kernel or function that need no context. */
CUresult function_describe(const void *handle, const struct ptx_kernel_info **ret_info,
	struct settings **ret_settings);

#endif
