/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The work of the counting driver: libraries, launches, streams and
 * events.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_tables.h"
#include "server/copy/copy_kernel.h"

#define FAKE_KERNELS 7
#define GLOBAL_BASE 0x1000000000ull
/* The server's own library, which is not counted because it stays. */
#define OWN_LIBRARY ((CUlibrary)&kernel_object)

static int kernel_object;

static CUresult library_load(CUlibrary *ret, const void *code, CUjit_option *jit, void **jit_values,
	unsigned n_jit, CUlibraryOption *options, void **option_values, unsigned n_options)
{
	uint64_t handle;

	BEGIN();
	(void)jit;
	(void)jit_values;
	(void)n_jit;
	(void)options;
	(void)option_values;
	(void)n_options;
	must(code != NULL, "no image");
	if (code == copy_kernel_image) {
		*ret = OWN_LIBRARY;
		return CUDA_SUCCESS;
	}
	handle = fake_handle();
	table_add(&globals, GLOBAL_BASE + handle * 0x10000, FAKE_GLOBAL_SIZE);
	fake_counts.libraries++;
	*ret = (CUlibrary)(uintptr_t)handle;
	return CUDA_SUCCESS;
}

static CUresult library_unload(CUlibrary library)
{
	BEGIN();
	must(library != OWN_LIBRARY, "the end of the server's own library");
	table_remove(&globals, GLOBAL_BASE + (uint64_t)(uintptr_t)library * 0x10000);
	fake_counts.libraries--;
	return CUDA_SUCCESS;
}

static CUresult library_kernel(CUkernel *ret, CUlibrary library, const char *name)
{
	BEGIN();
	(void)library;
	*ret = (CUkernel)&kernel_object;
	return strcmp(name, "missing") == 0 ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

static CUresult library_kernel_count(unsigned *count, CUlibrary library)
{
	BEGIN();
	(void)library;
	*count = FAKE_KERNELS;
	return CUDA_SUCCESS;
}

static CUresult library_kernels(CUkernel *kernels, unsigned n, CUlibrary library)
{
	BEGIN();
	(void)library;
	must(n == FAKE_KERNELS, "another number of kernels");
	for (unsigned i = 0; i < n; i++)
		kernels[i] = (CUkernel)&kernel_object;
	return CUDA_SUCCESS;
}

/* So many that they do not fit into one reply. */
static CUresult kernel_name(const char **ret, CUkernel kernel)
{
	static char name[3000];

	BEGIN();
	(void)kernel;
	memset(name, 'k', sizeof(name) - 1);
	*ret = name;
	return CUDA_SUCCESS;
}

static CUresult library_global(CUdeviceptr *ret, size_t *size, CUlibrary library, const char *name)
{
	BEGIN();
	*ret = GLOBAL_BASE + (uint64_t)(uintptr_t)library * 0x10000;
	*size = FAKE_GLOBAL_SIZE;
	return strcmp(name, "missing") == 0 ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

static CUresult kernel_function(CUfunction *ret, CUkernel kernel)
{
	BEGIN();
	*ret = (CUfunction)kernel;
	return CUDA_SUCCESS;
}

static CUresult function_load(CUfunction function)
{
	BEGIN();
	must(function != NULL, "no function");
	return CUDA_SUCCESS;
}

static CUresult kernel_attribute(
	int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device)
{
	(void)kernel;
	(void)device;
	*value = attribute >= CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET ? 0 : 1024;
	return CUDA_SUCCESS;
}

static CUresult kernel_set_attribute(
	CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
	(void)attribute;
	(void)kernel;
	(void)device;
	return value >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult function_set_attribute(
	CUfunction function, CUfunction_attribute attribute, int value)
{
	(void)function;
	(void)attribute;
	return value >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult kernel_param(CUkernel kernel, size_t i, size_t *offset, size_t *size)
{
	static const struct {
		size_t offset, size;
	} params[] = {{0, 8}, {8, 4}, {16, 8}};

	(void)kernel;
	if (i >= sizeof(params) / sizeof(params[0]))
		return CUDA_ERROR_INVALID_VALUE;
	*offset = params[i].offset;
	*size = params[i].size;
	return CUDA_SUCCESS;
}

static CUresult occupancy(
	int *blocks, CUfunction function, int block_size, size_t shared, unsigned flags)
{
	(void)function;
	(void)shared;
	(void)flags;
	*blocks = 2;
	return block_size > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Of the fake kernel, or of the server's own. */
uint32_t fake_param_sum(void **extra)
{
	const uint8_t *bytes;
	uint32_t sum = 0;
	size_t n;

	must(extra && extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER &&
			extra[2] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[4] == CU_LAUNCH_PARAM_END,
		"odd parameters");
	n = *(size_t *)extra[3];
	must(n == FAKE_PARAM_BYTES || n == sizeof(struct copy_kernel_params), "odd parameters");
	bytes = extra[1];
	for (size_t i = 0; i < n; i++)
		sum += bytes[i];
	return sum;
}

static CUresult launch(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
	unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
	BEGIN();
	must(function && stream && !params, "an odd launch");
	must(gx && gy && gz && gx <= 1024 && gy <= 1024 && gz <= 1024, "an odd grid");
	must(bx && by && bz && (uint64_t)bx * by * bz <= 1024, "an odd block");
	must(shared <= 1024, "too much shared memory");
	fake_calls.last_param_sum = fake_param_sum(extra);
	fake_calls.launches++;
	return CUDA_SUCCESS;
}

static CUresult launch_with(
	const CUlaunchConfig *config, CUfunction function, void **params, void **extra)
{
	for (unsigned i = 0; i < config->numAttrs; i++) {
		const CUlaunchAttribute *attribute = &config->attrs[i];

		if (attribute->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			must(attribute->value.clusterDim.x && attribute->value.clusterDim.y &&
					attribute->value.clusterDim.z &&
					config->gridDimX % attribute->value.clusterDim.x == 0,
				"an odd cluster");
		if (attribute->id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN &&
			attribute->value.memSyncDomain == CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE)
			fake_calls.remote_launches++;
		if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
			attribute->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT) {
			must(attribute->value.programmaticEvent.event &&
					attribute->value.programmaticEvent.flags == 0,
				"an odd event of a launch");
			fake_calls.launch_events++;
		}
	}
	return launch(function, config->gridDimX, config->gridDimY, config->gridDimZ,
		config->blockDimX, config->blockDimY, config->blockDimZ, config->sharedMemBytes,
		config->hStream, params, extra);
}

static CUresult clusters(int *value, CUfunction function, const CUlaunchConfig *config)
{
	BEGIN();
	must(function && config->blockDimX && config->gridDimX, "an odd question");
	*value = 4;
	return CUDA_SUCCESS;
}

static CUresult shared_room(size_t *bytes, CUfunction function, int blocks, int block_size)
{
	BEGIN();
	must(function && blocks > 0 && block_size > 0, "an odd question");
	*bytes = 1024;
	return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *ret, unsigned flags, int priority)
{
	BEGIN();
	(void)priority;
	must(flags == CU_STREAM_NON_BLOCKING, "a blocking stream");
	*ret = (CUstream)(uintptr_t)fake_handle();
	fake_counts.streams++;
	return CUDA_SUCCESS;
}

static CUresult stream_set_attribute(
	CUstream stream, CUstreamAttrID id, const CUstreamAttrValue *value)
{
	BEGIN();
	must(stream && value && id == CU_LAUNCH_ATTRIBUTE_PRIORITY, "an odd attribute");
	return CUDA_SUCCESS;
}

static CUresult stream_destroy(CUstream stream)
{
	BEGIN();
	must(stream != NULL, "the end of no stream");
	fake_counts.streams--;
	return CUDA_SUCCESS;
}

static CUresult stream_synchronize(CUstream stream)
{
	BEGIN();
	must(stream != NULL, "waiting for no stream");
	fake_calls.synchronizations++;
	fake_switches.is_busy = false;
	return CUDA_SUCCESS;
}

static CUresult stream_query(CUstream stream)
{
	BEGIN();
	must(stream != NULL, "asking for no stream");
	fake_calls.queued = 0;
	return fake_switches.is_busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

/* Writes the server's own words; a client's device memory has no bytes here. */
static void write_word(CUdeviceptr address, uint64_t value, uint64_t size)
{
	uint64_t end;

	must(address % size == 0, "a word that is not aligned");
	if (!table_has_byte(&registered, address, &end)) {
		must_be_device(address, size);
		return;
	}
	must_have(&registered, address, size, "a write to pageable memory");
	must(size == 8, "a short write to the server's words");
	__atomic_store_n((uint64_t *)(uintptr_t)address, value, __ATOMIC_RELEASE);
}

static CUresult write_value(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags)
{
	BEGIN();
	must(stream != NULL && flags == 0, "an odd write");
	write_word(address, value, 8);
	fake_calls.write_values++;
	return CUDA_SUCCESS;
}

static CUresult write_value_32(
	CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
	BEGIN();
	must(stream != NULL && flags == 0, "an odd write");
	write_word(address, value, 4);
	return CUDA_SUCCESS;
}

/* For a word in the client's memory, or for one of the server's, of 64 bits. */
static void wait_for_word(const CUstreamBatchMemOpParams *op, uint64_t size)
{
	uint64_t end;

	must(op->waitValue.flags <= CU_STREAM_WAIT_VALUE_NOR, "an odd wait");
	if (size == 8 && table_has_byte(&registered, op->waitValue.address, &end))
		must(op->waitValue.address + 8 <= end, "a wait for pageable memory");
	else
		must_be_device(op->waitValue.address, size);
	fake_calls.waits++;
}

void fake_memory_op(const CUstreamBatchMemOpParams *op)
{
	switch (op->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		wait_for_word(op, 4);
		return;
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		wait_for_word(op, 8);
		return;
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		write_word(op->writeValue.address, op->writeValue.value, 4);
		return;
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		write_word(op->writeValue.address, op->writeValue.value64, 8);
		return;
	default:
		must(op->operation == CU_STREAM_MEM_OP_BARRIER, "an odd operation");
	}
}

static CUresult batch_memory_ops(
	CUstream stream, unsigned n, CUstreamBatchMemOpParams *ops, unsigned flags)
{
	BEGIN();
	must(stream != NULL && n > 0 && n < 256 && flags == 0, "an odd batch");
	for (unsigned i = 0; i < n; i++)
		fake_memory_op(&ops[i]);
	return CUDA_SUCCESS;
}

static CUresult stream_wait_event(CUstream stream, CUevent event, unsigned flags)
{
	BEGIN();
	must(stream && event && flags == 0, "an odd wait");
	fake_calls.waits++;
	return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *ret, unsigned flags)
{
	BEGIN();
	must((flags & ~3u) == 0, "odd flags of an event");
	*ret = (CUevent)(uintptr_t)fake_handle();
	fake_counts.events++;
	return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
	BEGIN();
	must(event && stream, "an odd event");
	return CUDA_SUCCESS;
}

/* Work of other clients always ends. */
static CUevent of_context;

static CUresult context_record(CUcontext context, CUevent event)
{
	BEGIN();
	must(context && event, "an odd event of a context");
	of_context = event;
	return CUDA_SUCCESS;
}

static CUresult event_synchronize(CUevent event)
{
	BEGIN();
	must(event != NULL, "no event");
	return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event)
{
	BEGIN();
	must(event != NULL, "asking for no event");
	return fake_switches.is_busy && event != of_context ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event)
{
	BEGIN();
	must(event != NULL, "the end of no event");
	fake_counts.events--;
	return CUDA_SUCCESS;
}

static CUresult event_elapsed(float *ret, CUevent start, CUevent end)
{
	BEGIN();
	must(start && end, "no event");
	*ret = 1;
	return CUDA_SUCCESS;
}

void fake_work_start(void)
{
	cuda.cuLibraryLoadData = library_load;
	cuda.cuLibraryUnload = library_unload;
	cuda.cuLibraryGetKernel = library_kernel;
	cuda.cuLibraryGetKernelCount = library_kernel_count;
	cuda.cuLibraryEnumerateKernels = library_kernels;
	cuda.cuKernelGetName = kernel_name;
	cuda.cuLibraryGetGlobal = library_global;
	cuda.cuKernelGetFunction = kernel_function;
	cuda.cuFuncLoad = function_load;
	cuda.cuKernelGetAttribute = kernel_attribute;
	cuda.cuKernelSetAttribute = kernel_set_attribute;
	cuda.cuFuncSetAttribute = function_set_attribute;
	cuda.cuKernelGetParamInfo = kernel_param;
	cuda.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags = occupancy;
	cuda.cuOccupancyMaxActiveClusters = clusters;
	cuda.cuOccupancyMaxPotentialClusterSize = clusters;
	cuda.cuOccupancyAvailableDynamicSMemPerBlock = shared_room;
	cuda.cuLaunchKernel = launch;
	cuda.cuLaunchKernelEx = launch_with;
	cuda.cuStreamCreateWithPriority = stream_create;
	cuda.cuStreamSetAttribute = stream_set_attribute;
	cuda.cuStreamDestroy_v2 = stream_destroy;
	cuda.cuStreamSynchronize = stream_synchronize;
	cuda.cuStreamQuery = stream_query;
	cuda.cuStreamWriteValue64_v2 = write_value;
	cuda.cuStreamWriteValue32_v2 = write_value_32;
	cuda.cuStreamBatchMemOp_v2 = batch_memory_ops;
	cuda.cuStreamWaitEvent = stream_wait_event;
	cuda.cuEventCreate = event_create;
	cuda.cuEventRecord = event_record;
	cuda.cuCtxRecordEvent = context_record;
	cuda.cuEventSynchronize = event_synchronize;
	cuda.cuEventQuery = event_query;
	cuda.cuEventDestroy_v2 = event_destroy;
	cuda.cuEventElapsedTime = event_elapsed;
}
