/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the private tables say about a green context: that it is one, and of which context; that it
 * has the storage of its primary context; and which default streams a context has.
 */

#include <stdint.h>
#include <string.h>

#define NAME "green_tables"
#include "../helpers/driver_program.h"

typedef void (*slot_fn)(void);
typedef unsigned long long stream_id;
typedef CUresult is_green_fn(CUcontext context, uint32_t *is_green, CUcontext *ret_primary);
typedef void end_fn(CUcontext context, void *key, void *value);
typedef CUresult put_fn(CUcontext context, void *key, void *value, end_fn *end);
typedef CUresult get_fn(void **ret_value, CUcontext context, void *key);
typedef CUresult object_fn(
	CUcontext context, CUstream stream, void **ret_object, int is_per_thread);
typedef CUresult object_id_fn(CUcontext context, void *object, stream_id *ret_id);

static const slot_fn *checks, *storage, *streams;
static CUdevice device;
static CUcontext primary, context;
static CUgreenCtx green;

static const slot_fn *table(const unsigned char id[16])
{
	const void *found;

	CHECK(cuGetExportTable(&found, (const CUuuid *)id));
	return found;
}

static void find_tables(void)
{
	static const unsigned char checks_id[] = {0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43,
		0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa, 0x7e};
	static const unsigned char storage_id[] = {0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11,
		0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93};
	static const unsigned char streams_id[] = {0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48,
		0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2};

	checks = table(checks_id);
	storage = table(storage_id);
	streams = table(streams_id);
}

static void make_green(void)
{
	CUdevResource all, part;
	CUdevResourceDesc desc;
	unsigned n = 1;

	CHECK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
	CHECK(cuDevSmResourceSplitByCount(&part, &n, &all, NULL, 0, 16));
	CHECK(cuDevResourceGenerateDesc(&desc, &part, 1));
	CHECK(cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
	CHECK(cuCtxFromGreenCtx(&context, green));
	/* The runtime uses one as the other. */
	MUST((void *)context == (void *)green);
}

static void look(CUcontext asked, uint32_t wanted)
{
	is_green_fn *is_green = (is_green_fn *)checks[2];
	CUcontext owner = NULL;
	uint32_t answer = 2;

	CHECK(is_green(asked, &answer, &owner));
	MUST(answer == wanted && owner == (wanted ? primary : NULL));
	answer = 2;
	if (asked) {
		CHECK(is_green(asked, &answer, NULL));
		MUST(answer == wanted);
	}
}

static void look_at_contexts(void)
{
	uint32_t answer;

	CHECK(cuCtxSetCurrent(NULL));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, ((is_green_fn *)checks[2])(NULL, &answer, NULL));
	CHECK(cuCtxSetCurrent(primary));
	look(primary, 0);
	look(context, 1);
	look(NULL, 0);
	CHECK(cuCtxSetCurrent(context));
	look(primary, 0);
	look(context, 1);
	look(NULL, 1);
}

static void never(CUcontext of, void *key, void *value)
{
	printf(NAME ": the value %p of %p in %p has ended\n", value, key, (void *)of);
	exit(1);
}

static void store(void)
{
	put_fn *put = (put_fn *)storage[0];
	get_fn *get = (get_fn *)storage[2];
	static int key, other_key;
	void *value = NULL;

	CHECK(put(context, &key, &key, never));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, put(primary, &key, &other_key, never));
	CHECK(get(&value, primary, &key));
	MUST(value == &key);
	CHECK(put(primary, &other_key, &other_key, NULL));
	CHECK(get(&value, context, &other_key));
	MUST(value == &other_key);
	CHECK(((CUresult(*)(CUcontext, void *))storage[1])(primary, &key));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, get(&value, context, &key));
}

static stream_id id_in(CUcontext of, CUstream stream)
{
	void *object = NULL;
	stream_id id = 0;

	CHECK(((object_fn *)streams[51])(of, stream, &object, stream == CU_STREAM_PER_THREAD));
	CHECK(((object_id_fn *)streams[39])(of, object, &id));
	return id;
}

/* While the green context is current. */
static void look_at_streams(void)
{
	CUcontext current;
	CUstream stream;
	void *object;
	stream_id id;

	CHECK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	CHECK(cuStreamGetId(stream, &id));
	MUST(id_in(context, stream) == id && id_in(primary, stream) == id);
	CHECK(cuStreamGetId(NULL, &id));
	MUST(id_in(context, NULL) == id && id_in(context, CU_STREAM_LEGACY) == id);
	MUST(id_in(primary, NULL) != id &&
		id_in(primary, NULL) == id_in(primary, CU_STREAM_LEGACY));
	EXPECT(CUDA_ERROR_INVALID_HANDLE,
		((object_fn *)streams[51])(context, CU_STREAM_PER_THREAD, &object, 1));
	MUST(id_in(primary, CU_STREAM_PER_THREAD) != id_in(primary, NULL));
	CHECK(cuCtxGetCurrent(&current));
	MUST(current == context);
	CHECK(cuStreamDestroy(stream));
}

int main(void)
{
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	find_tables();
	CHECK(cuDevicePrimaryCtxRetain(&primary, device));
	make_green();
	look_at_contexts();
	store();
	look_at_streams();
	CHECK(cuCtxSetCurrent(primary));
	CHECK(cuGreenCtxDestroy(green));
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
