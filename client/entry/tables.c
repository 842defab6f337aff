/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The private tables. Any thread of the application.
 *
 * Invariant: a table is an array of words: its size in bytes (but for
 * storage_table), then functions. It never moves. A slot that no library was seen
 * to call returns CUDA_ERROR_NOT_SUPPORTED; it is NULL only where the driver's own
 * slot is NULL.
 */

#include "tables.h"

#include <string.h>

#include "integrity.h"

/* Indexed by the runtime's callback IDs. All flags are zero: no profiler listens. */
#define CALLBACKS 1024
#define RESOURCES 14

union word {
	size_t size;
	void (*function)(void);
};

#define SLOT(function_)                                                                            \
	{                                                                                          \
		.function = (void (*)(void))(function_)                                            \
	}
#define SIZE(table)                                                                                \
	{                                                                                          \
		.size = sizeof(table)                                                              \
	}

static CUresult refused_slot(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

/*
 * Does nothing: for events that never happen while all flags are zero, and for
 * loading compilers. Some callers check the result: the shared runtime of CUDA 13.1
 * fails every call if this slot fails.
 */
static CUresult ignored_slot(void)
{
	return CUDA_SUCCESS;
}

#define REFUSED SLOT(refused_slot)
#define IGNORED SLOT(ignored_slot)

/* ---- 6bd5fb6c: the runtime's own interface */

static CUresult interface_primary(CUcontext *context, CUdevice device)
{
	return context ? host_primary(device, context) : CUDA_ERROR_INVALID_VALUE;
}

static const union word interface_table[13] = {
	SIZE(interface_table),
	SLOT(cuModuleLoadData),
	SLOT(interface_primary),
	REFUSED,
	REFUSED,
	REFUSED,
	SLOT(cuModuleLoadData),
	IGNORED,
	REFUSED,
	REFUSED,
	{.size = 0},
	REFUSED,
	IGNORED,
};

/* ---- a094798c: flags for the events that a profiler wants */

static uint32_t callback_flags[CALLBACKS];
static uint32_t resource_flags[RESOURCES];

static void hooks_callbacks(uint32_t **base, size_t *count)
{
	*base = callback_flags;
	*count = CALLBACKS;
}

static void hooks_resources(uint32_t **base, size_t *count)
{
	*base = resource_flags;
	*count = RESOURCES;
}

static CUresult context_id(CUcontext context, unsigned long long *id)
{
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	*id = 0;
	return context ? cuCtxGetId(context, id) : CUDA_SUCCESS;
}

static const union word hooks_table[7] = {
	SIZE(hooks_table),
	IGNORED,
	SLOT(hooks_callbacks),
	IGNORED,
	SLOT(context_id),
	IGNORED,
	SLOT(hooks_resources),
};

/* ---- 42d85a81: the current context of the thread */

static const union word thread_table[3] = {
	SIZE(thread_table),
	REFUSED,
	SLOT(cuCtxGetCurrent),
};

/* ---- c693336e: context-local storage, the table without a size */

static CUresult storage_slot_put(CUcontext context, void *key, void *value, storage_end_fn end)
{
	struct storage *storage;
	CUresult result = host_storage(context, &storage);

	return result == CUDA_SUCCESS ? storage_put(storage, key, value, end) : result;
}

static CUresult storage_slot_delete(CUcontext context, void *key)
{
	struct storage *storage;
	CUresult result = host_storage(context, &storage);

	return result == CUDA_SUCCESS ? storage_delete(storage, key) : result;
}

static CUresult storage_slot_get(void **value, CUcontext context, void *key)
{
	struct storage *storage;
	CUresult result = host_storage(context, &storage);

	return result == CUDA_SUCCESS ? storage_get(storage, key, value) : result;
}

static const union word storage_table[4] = {
	SLOT(storage_slot_put),
	SLOT(storage_slot_delete),
	SLOT(storage_slot_get),
	{.size = 0},
};

/* ---- 263e8860: whether a context is a green one, and of which context */

/* NULL is the current context. A caller without use for the primary context passes NULL. */
static CUresult checks_is_green(CUcontext context, uint32_t *is_green, CUcontext *ret_primary)
{
	CUcontext primary;

	if (!context && (cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context))
		return CUDA_ERROR_INVALID_CONTEXT;
	*is_green = host_green(context, &primary);
	if (*is_green && ret_primary)
		*ret_primary = primary;
	return CUDA_SUCCESS;
}

static CUresult checks_mode(void)
{
	return CUDA_SUCCESS;
}

static const union word checks_table[15] = {
	SIZE(checks_table),
	REFUSED,
	SLOT(checks_is_green),
	SLOT(checks_mode),
	REFUSED,
	REFUSED,
	REFUSED,
	REFUSED,
	REFUSED,
	REFUSED,
	REFUSED,
	REFUSED,
	REFUSED,
	REFUSED,
	REFUSED,
};

/* ---- d4082055: the integrity check */

static CUresult integrity_slot(uint32_t version, uint64_t unix_seconds, uint8_t *digest);

static const union word integrity_table[3] = {
	SIZE(integrity_table),
	SLOT(integrity_slot),
	REFUSED,
};

static CUresult integrity_slot(uint32_t version, uint64_t unix_seconds, uint8_t *digest)
{
	const struct integrity_addresses addresses = {
		.interface_table = interface_table,
		.check_table = integrity_table,
		.check_function = (const void *)integrity_slot,
	};

	return integrity_answer(&addresses, version, unix_seconds, digest);
}

/* ---- 21318c60: what cuBLAS asks about contexts and streams */

#define STREAM_TABLE_WORDS 93

static CUresult stream_context_device(CUcontext context, CUdevice *device)
{
	return cuCtxGetDevice_v2(device, context);
}

/* The ID of a stream; the default streams are those of `context', NULL: the current context. */
static CUresult stream_id_in(CUcontext context, CUstream stream, unsigned long long *id)
{
	bool is_default = !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
	CUcontext current = NULL;
	CUresult result = cuCtxGetCurrent(&current);

	if (result != CUDA_SUCCESS || !is_default || !context || context == current)
		return result == CUDA_SUCCESS ? cuStreamGetId(stream, id) : result;
	result = cuCtxPushCurrent(context);
	if (result != CUDA_SUCCESS)
		return result;
	result = cuStreamGetId(stream, id);
	cuCtxPopCurrent(&context);
	return result;
}

/* The returned object is the stream's handle; the NULL stream's two names give the same object. */
static CUresult stream_object(CUcontext context, CUstream stream, void **object, int is_per_thread)
{
	unsigned long long id;
	CUresult result;

	if (!stream || stream == CU_STREAM_LEGACY)
		stream = is_per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
	result = stream_id_in(context, stream, &id);
	if (result == CUDA_SUCCESS)
		*object = stream;
	return result;
}

static CUresult stream_object_id(CUcontext context, void *object, unsigned long long *id)
{
	return stream_id_in(context, object, id);
}

static const union word stream_table[STREAM_TABLE_WORDS] = {
	[0] = SIZE(stream_table),
	[1 ... 2] = REFUSED,
	[3] = SLOT(stream_context_device),
	[4] = SLOT(context_id),
	[5 ... 38] = REFUSED,
	[39] = SLOT(stream_object_id),
	[40 ... 50] = REFUSED,
	[51] = SLOT(stream_object),
	[52 ... 90] = REFUSED,
	[92] = REFUSED,
};

/* ---- 6e163fbe: the functions of a module, for cuFFT */

#define MODULE_TABLE_WORDS 99

typedef void (*each_function_fn)(void *user, CUfunction function, const char *name);

/* Returns the number of functions, not a CUresult. */
static unsigned module_functions(
	_unused_ CUcontext context, CUmodule module, each_function_fn each, void *user)
{
	_cleanup_free_ CUfunction *functions = NULL;
	unsigned n = 0;

	if (cuModuleGetFunctionCount(&n, module) != CUDA_SUCCESS || n == 0)
		return 0;
	functions = calloc(n, sizeof(CUfunction));
	if (!functions || cuModuleEnumerateFunctions(functions, n, module) != CUDA_SUCCESS)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): its attribute frees it */
		return 0;
	for (unsigned i = 0; i < n; i++) {
		const char *name = NULL;

		if (cuFuncGetName(&name, functions[i]) == CUDA_SUCCESS)
			each(user, functions[i], name);
	}
	return n;
}

static const union word module_table[MODULE_TABLE_WORDS] = {
	[0] = SIZE(module_table),
	[1 ... 6] = REFUSED,
	[7] = SLOT(module_functions),
	[8 ... 92] = REFUSED,
	[94 ... 98] = REFUSED,
};

/* ---- 1734dc26: where the SMs are; after an error, cuBLASLt's products take longer */

/* The caller gives both arrays to topology_free(). */
static CUresult topology_read(uint8_t **ret_gpcs, uint8_t **ret_numbers)
{
	_cleanup_free_ uint8_t *gpcs = NULL, *numbers = NULL;
	struct topology topology;
	CUdevice device;
	CUresult result = cuCtxGetDevice(&device);

	if (result == CUDA_SUCCESS && (!ret_gpcs || !ret_numbers))
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = host_topology(&topology);
	if (result != CUDA_SUCCESS)
		return result;
	gpcs = malloc(topology.n);
	numbers = malloc(topology.n);
	if (!gpcs || !numbers)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): its attribute frees it */
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(gpcs, topology.gpcs, topology.n);
	memcpy(numbers, topology.numbers, topology.n);
	*ret_gpcs = TAKE_PTR(gpcs);
	*ret_numbers = TAKE_PTR(numbers);
	return CUDA_SUCCESS;
}

static CUresult topology_free(uint8_t *gpcs, uint8_t *numbers)
{
	free(gpcs);
	free(numbers);
	return CUDA_SUCCESS;
}

static const union word topology_table[17] = {
	[0] = SIZE(topology_table),
	[1 ... 3] = REFUSED,
	[4] = SLOT(topology_read),
	[5 ... 12] = REFUSED,
	[13] = SLOT(topology_free),
	[14 ... 16] = REFUSED,
};

/*
 * ---- 7cb63f9b: for CUPTI. Without this table CUPTI 13.2 recurses until the stack
 * is full, and later versions do not report their version, which JAX reads first.
 * The table has the length of driver 580's, and has none of the functions that
 * replace CUPTI's own.
 */

static const union word tools_table[67] = {
	[0] = SIZE(tools_table),
	[1 ... 66] = REFUSED,
};

static const struct {
	const char *id; /* 16 bytes */
	const union word *table;
} tables[] = {
	{"\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9", interface_table},
	{"\xa0\x94\x79\x8c\x2e\x74\x2e\x74\x93\xf2\x08\x00\x20\x0c\x0a\x66", hooks_table},
	{"\x42\xd8\x5a\x81\x23\xf6\xcb\x47\x82\x98\xf6\xe7\x8a\x3a\xec\xdc", thread_table},
	{"\xc6\x93\x33\x6e\x11\x21\xdf\x11\xa8\xc3\x68\xf3\x55\xd8\x95\x93", storage_table},
	{"\x26\x3e\x88\x60\x7c\xd2\x61\x43\x92\xf6\xbb\xd5\x00\x6d\xfa\x7e", checks_table},
	{"\xd4\x08\x20\x55\xbd\xe6\x70\x4b\x8d\x34\xba\x12\x3c\x66\xe1\xf2", integrity_table},
	{"\x21\x31\x8c\x60\x97\x14\x32\x48\x8c\xa6\x41\xff\x73\x24\xc8\xf2", stream_table},
	{"\x6e\x16\x3f\xbe\xb9\x58\x44\x4d\x83\x5c\xe1\x82\xaf\xf1\x99\x1e", module_table},
	{"\x17\x34\xdc\x26\x80\x0d\x47\x45\x87\x26\xc0\xf1\xe7\xdd\x8b\xca", topology_table},
	{"\x7c\xb6\x3f\x9b\x9c\xa4\x8e\x42\xa4\x84\xbe\xb6\x6e\x6a\xed\x7f", tools_table},
};

CUresult tables_find(const void **ret_table, const CUuuid *id)
{
	if (!ret_table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		if (!memcmp(id->bytes, tables[i].id, sizeof(id->bytes))) {
			*ret_table = tables[i].table;
			return CUDA_SUCCESS;
		}
	*ret_table = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}
