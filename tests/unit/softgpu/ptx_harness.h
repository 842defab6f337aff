/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_HARNESS_H
#define PTX_HARNESS_H

/*
 * Shared by the tests of the PTX interpreter: memory of the device, and kernels from
 * text. Everything belongs to the test's only thread.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base.h"
#include "tests/softgpu/ptx/ptx.h"

#define DEVICE_SIZE 65536u

struct device {
	_Alignas(4096) uint8_t memory[DEVICE_SIZE];
	char printed[4096];
	size_t n_printed;
};

static struct device device;

static inline bool device_lookup(
	_unused_ void *user, uint64_t addr, uint64_t *ret_start, uint64_t *ret_end)
{
	uint64_t start = (uintptr_t)device.memory;

	if (addr - start >= DEVICE_SIZE)
		return false;
	*ret_start = start;
	*ret_end = start + DEVICE_SIZE;
	return true;
}

static inline void device_print(_unused_ void *user, const char *text, size_t len)
{
	len = MIN(len, sizeof(device.printed) - device.n_printed - 1);
	memcpy(device.printed + device.n_printed, text, len);
	device.n_printed += len;
}

static inline uint64_t device_address(size_t offset)
{
	return (uintptr_t)device.memory + offset;
}

static inline void device_reset(void)
{
	memset(&device, 0, sizeof(device));
}

/* Loads a valid text; its variables lie in the upper half of the memory. */
static inline struct ptx_module *load(const char *text)
{
	struct ptx_module *module = NULL;
	uint64_t at = device_address(DEVICE_SIZE / 2);
	char log[512];

	if (ptx_module_new(text, strlen(text) + 1, log, sizeof(log), &module) < 0)
		fail_msg("%s", log);
	for (uint32_t i = 0; i < ptx_module_n_globals(module); i++) {
		const struct ptx_global *global = ptx_module_global(module, i);

		at = ALIGN_UP(at, (uint64_t)global->align);
		ptx_module_bind(module, i, at);
		at += global->size;
	}
	assert_true(at <= device_address(DEVICE_SIZE));
	assert_int_equal(ptx_module_init(module), 0);
	return module;
}

static inline int run(const struct ptx_module *module, const char *name, uint32_t grid,
	uint32_t block, const void *params, struct ptx_fault *ret_fault)
{
	const struct ptx_kernel *kernel = ptx_module_find(module, name);
	struct ptx_launch launch = {
		.grid = {grid, 1, 1},
		.block = {block, 1, 1},
		.params = params,
		.lookup = device_lookup,
		.n_sms = 4,
		.print = device_print,
	};

	assert_non_null(kernel);
	return ptx_kernel_run(kernel, &launch, ret_fault);
}

#define PTX_HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"

#endif
