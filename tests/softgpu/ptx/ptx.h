/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_H
#define PTX_H

/*
 * The compute half of the software GPU: finds the PTX in an image, translates
 * it once into compact instructions, and runs kernels on the calling thread.
 *
 * Device addresses are host addresses: memory mapped in the device space is mapped at
 * the same address in this process. Every load and store is first checked against the
 * mapped ranges, so a wrong address is a fault, never a crash.
 *
 * Refused when a module is loaded, with the name of the instruction or function:
 * textures of cubes and their gradients, matrix instructions except mma and wmma of
 * doubles, tensor maps, registers and atomics of 128 bits, kernels that launch kernels,
 * and images without PTX.
 *
 * Nothing here calls the driver half (tests/softgpu/driver), which calls this half.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx_module;
struct ptx_kernel;
struct ptx_texture;

/* A __device__ or __constant__ variable. Its address is bound by the driver half. */
struct ptx_global {
	const char *name;
	uint64_t size;    /* bytes; 0 only for an unsized extern */
	uint32_t align;   /* a power of two */
	uint64_t address; /* 0 until ptx_module_bind() */
	bool is_constant;
	bool is_managed; /* __managed__: the host uses it at the same address */
	bool is_placed;  /* the linker's caller has set its address and its initial value */
	uint64_t copy;   /* then, the loader's copy, which code does not use; 0: none */
};

/* One kernel parameter: its location in the packed parameter buffer. */
struct ptx_param {
	uint32_t offset;
	uint32_t size;
};

/* What cuFuncGetAttribute returns for a kernel. */
struct ptx_kernel_info {
	const char *name;
	const struct ptx_param *params;
	uint32_t n_params;
	uint32_t param_size;    /* bytes of the whole packed buffer */
	uint32_t shared_static; /* bytes */
	uint32_t local_size;    /* bytes a thread */
	bool has_open_stack;    /* its stack has no known size: it calls printf, or by address */
	uint32_t const_size;    /* bytes of the variables in constant memory */
	uint32_t n_regs;        /* an estimate */
	uint32_t max_threads;   /* from .maxntid, else 1024 */
	uint32_t ptx_version;   /* e.g. 75 of .target sm_75 */
	uint32_t cluster[3];    /* from .reqnctapercluster; 0: not set */
};

/* Fills [*ret_start, *ret_end) with the mapped range around `addr'; false if none. */
typedef bool (*ptx_lookup_fn)(void *user, uint64_t addr, uint64_t *ret_start, uint64_t *ret_end);

struct ptx_launch {
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared_dynamic; /* bytes */
	const void *params;      /* packed, kernel_info.param_size bytes */
	ptx_lookup_fn lookup;
	void *user;
	uint32_t n_sms;               /* the number of SMs that it may use */
	uint32_t n_sms_all;           /* %nsmid; 0: n_sms */
	const uint16_t *sms;          /* their numbers; NULL: from 0 on */
	const atomic_bool *cancelled; /* read now and then; may be NULL */
	void (*print)(void *user, const char *text, size_t len); /* vprintf; may be NULL */
	uint32_t cluster[3]; /* blocks of a cluster; 0: the kernel's, else one */
	/* The object of a number (texture.h), NULL without one. The pointer may be NULL. */
	const struct ptx_texture *(*texture)(void *user, uint64_t value, bool is_surface);
	/* Sets the condition of a handle; false: no such handle. Both are NULL outside of graphs.
	 */
	bool (*set_condition)(void *conditions, uint64_t handle, uint32_t value);
	void *conditions;
	/* Called when all blocks have begun; may be NULL. */
	void (*on_begun)(void *begun_user);
	void *begun_user;
};

enum ptx_fault_kind {
	PTX_FAULT_NONE = 0,
	PTX_FAULT_ADDRESS,    /* CUDA_ERROR_ILLEGAL_ADDRESS */
	PTX_FAULT_MISALIGNED, /* CUDA_ERROR_MISALIGNED_ADDRESS */
	PTX_FAULT_TRAP,       /* trap; and assertions: CUDA_ERROR_LAUNCH_FAILED, _ASSERT */
	PTX_FAULT_ASSERT,
	PTX_FAULT_CANCELLED,
	PTX_FAULT_INTERNAL, /* out of host memory and the like */
};

struct ptx_fault {
	enum ptx_fault_kind kind;
	uint64_t address;
	bool is_write;
};

/*
 * Loads PTX text (NUL within size), a fatbin (magic ba55ed50; compressed entries with
 * LZ4 or zstd), or an output of the linker (parse/texts.h); another cubin is refused.
 * The caller may free the image afterwards. On failure 'log' says what is wrong and
 * where, and names an unknown instruction.
 * -ENOEXEC: no PTX in it. -EINVAL: malformed. -ENOTSUP: unknown instruction
 * or directive. -ENOMEM.
 */
int ptx_module_new(
	const void *image, size_t size, char *log, size_t log_size, struct ptx_module **ret_module);
void ptx_module_free(struct ptx_module *module);

/* CU_JIT_MAX_REGISTERS: no kernel reports more. */
void ptx_module_limit_registers(struct ptx_module *module, uint32_t max_regs);

uint32_t ptx_module_n_kernels(const struct ptx_module *module);
const struct ptx_kernel *ptx_module_kernel(const struct ptx_module *module, uint32_t i);
const struct ptx_kernel *ptx_module_find(const struct ptx_module *module, const char *name);
const struct ptx_kernel_info *ptx_kernel_info(const struct ptx_kernel *kernel);

uint32_t ptx_module_n_globals(const struct ptx_module *module);
const struct ptx_global *ptx_module_global(const struct ptx_module *module, uint32_t i);

/* Its initial value; NULL: zeros. */
const uint8_t *ptx_module_initial(const struct ptx_module *module, uint32_t i);

/* An address in the initial value of a variable. */
struct ptx_value_address {
	uint64_t offset;
	uint64_t value;  /* to add to it */
	uint32_t global; /* the variable; UINT32_MAX: it is the address of a function */
	bool is_part;    /* only some of its bits */
};

/* The address number `k' in the initial value of variable `i'; false: it has no more. */
bool ptx_module_value_address(const struct ptx_module *module, uint32_t i, uint32_t k,
	struct ptx_value_address *ret_address);

/* Every global must be bound before ptx_module_init(), which writes the initial values there. */
void ptx_module_bind(struct ptx_module *module, uint32_t i, uint64_t address);
int ptx_module_init(struct ptx_module *module);

/* Runs all blocks. 0, or -EFAULT with *ret_fault filled, or -EINVAL for a bad shape, -ENOMEM. */
int ptx_kernel_run(const struct ptx_kernel *kernel, const struct ptx_launch *launch,
	struct ptx_fault *ret_fault);

#endif
