/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Contents of arrays, for arrays that are made again: an array lies in memory of the driver, which
 * has no descriptor. The bytes go through a slot of the store into a file of memory, array after
 * array, and from there into the arrays when the record makes them. A worker, or the thread of
 * server/arrival.c.
 *
 * Invariant: the bytes of an array lie in the file in the order of array_each_box().
 */

#include <fcntl.h>

#include "array.h"
#include "wire.h"
#include "server/util/machine_memory.h"
#include "server/util/memory_file.h"
#include "server/util/pack.h"
#include "server/session/fault.h"
#include "server/session/recorded.h"
#include "server/session/session.h"
#include "server/share/host_store.h"
#include "server/share/session_devices.h"

/* A session's contents may take this part of the host memory that is free. */
#define FREE_PART 4

struct saved_array {
	uint32_t id;
	uint64_t at, bytes; /* in the file */
};

/* A copy of all boxes of an array. */
struct transfer {
	struct session *session;
	CUstream stream;
	uint8_t *memory; /* for a box */
	struct stored slot;
	int fd;
	uint64_t at;
	bool is_out; /* into the file */
};

static CUDA_MEMCPY3D box_copy(
	const struct transfer *transfer, const struct array *level, const struct array_box *box)
{
	CUDA_MEMCPY3D copy = {
		.WidthInBytes = level->width, .Height = box->n_rows, .Depth = box->n_slices};

	if (transfer->is_out) {
		copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
		copy.srcArray = level->real;
		copy.srcY = box->y;
		copy.srcZ = box->z;
		copy.dstMemoryType = CU_MEMORYTYPE_HOST;
		copy.dstHost = transfer->memory;
		copy.dstPitch = level->width;
		copy.dstHeight = box->n_rows;
	} else {
		copy.srcMemoryType = CU_MEMORYTYPE_HOST;
		copy.srcHost = transfer->memory;
		copy.srcPitch = level->width;
		copy.srcHeight = box->n_rows;
		copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
		copy.dstArray = level->real;
		copy.dstY = box->y;
		copy.dstZ = box->z;
	}
	return copy;
}

static CUresult transfer_box(void *arg, const struct array *level, const struct array_box *box)
{
	struct transfer *transfer = arg;
	const CUDA_MEMCPY3D copy = box_copy(transfer, level, box);
	CUresult result, waited;

	if (!transfer->is_out &&
		memory_file_read(transfer->fd, transfer->memory, box->bytes, transfer->at) < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	result = cuda.cuMemcpy3DAsync_v2(&copy, transfer->stream);
	waited = array_wait(transfer->session, transfer->stream);
	if (result == CUDA_SUCCESS)
		result = waited;
	if (result == CUDA_SUCCESS && transfer->is_out &&
		memory_file_write(transfer->fd, transfer->memory, box->bytes, transfer->at) < 0)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	transfer->at += box->bytes;
	return result;
}

/*
 * A slot of the store, which is pinned. If the store is full, other memory of the server: then the
 * driver copies by its own means, and delays calls of other clients.
 */
static bool transfer_begin(struct transfer *transfer)
{
	session_device_enter_any(transfer->session);
	if (host_store_take(transfer->session->account, ARRAY_BOX_MAX, &transfer->slot))
		transfer->memory = host_store_memory(&transfer->slot);
	else
		transfer->memory = account_alloc(transfer->session->account, ARRAY_BOX_MAX, 0);
	return transfer->memory;
}

static void transfer_end(struct transfer *transfer)
{
	if (transfer->slot.n > 0)
		host_store_give(&transfer->slot);
	else
		account_free(transfer->memory);
}

/* All of it, on a stream that waits for none of the client's work. */
static CUresult transfer_array(struct transfer *transfer, const struct array *array)
{
	struct session *session = transfer->session;
	int32_t priority = session_device_priority(array->sdev, 0);
	CUresult result = session_device_enter(session, array->sdev);

	if (result == CUDA_SUCCESS)
		result = session_device_take_stream(
			session, array->sdev, priority, &transfer->stream);
	if (result != CUDA_SUCCESS)
		return result;
	result = array_each_box(session, array, transfer_box, transfer);
	if (result_is_fault(result))
		session_device_discard_stream(array->sdev, transfer->stream);
	else
		session_device_give_stream(array->sdev, transfer->stream, priority);
	return result;
}

/* ---- out of the arrays */

/* An array, no level of one. Other IDs have no contents of their own. */
static const struct array *next_array(const struct session *session, uint32_t *at)
{
	const struct array *array;

	do
		array = handle_next(&session->arrays, at);
	while (array && array->parent);
	return array;
}

static uint64_t count_bytes(const struct session *session, uint32_t *ret_n)
{
	const struct array *array;
	uint64_t bytes = 0;
	uint32_t at = 0;

	*ret_n = 0;
	while ((array = next_array(session, &at))) {
		bytes += array->bytes;
		(*ret_n)++;
	}
	return bytes;
}

const char *array_contents_obstacle(struct session *session)
{
	uint32_t n;
	uint64_t bytes = count_bytes(session, &n);

	return bytes > 0 && bytes > machine_memory_free("") / FREE_PART
		       ? "the contents of its arrays take more than a quarter of the free host "
			 "memory"
		       : NULL;
}

const char *array_contents_stay(const struct session *session)
{
	uint32_t n;

	return fault_get() != CUDA_SUCCESS && count_bytes(session, &n) > 0
		       ? "the contents of its arrays stay behind"
		       : NULL;
}

/* With space for all; the bytes come later. */
static int contents_begin(struct session *session, struct array_contents *contents)
{
	uint32_t n;

	*contents = (struct array_contents){.fd = -EBADF};
	(void)count_bytes(session, &n);
	if (n == 0)
		return 0;
	contents->of = account_alloc(session->account, n * sizeof(*contents->of), 0);
	if (!contents->of)
		return -ENOMEM;
	contents->fd = memory_file_new("mps-arrays");
	contents->n_left = contents->n = n;
	return MIN(contents->fd, 0);
}

static int copy_out(struct session *session, struct array_contents *contents)
{
	struct transfer transfer = {.session = session, .fd = contents->fd, .is_out = true};
	const struct array *array;
	uint32_t at = 0, n = 0;
	int r = 0;

	if (!transfer_begin(&transfer))
		return -ENOMEM;
	while (r == 0 && (array = next_array(session, &at))) {
		struct saved_array *saved = &contents->of[n++];

		*saved = (struct saved_array){array->id, transfer.at, array->bytes};
		if (transfer_array(&transfer, array) != CUDA_SUCCESS ||
			transfer.at != saved->at + saved->bytes)
			r = -EIO;
	}
	transfer_end(&transfer);
	return r;
}

static int contents_make(struct session *session, struct array_contents *contents)
{
	int r = contents_begin(session, contents);

	if (r == 0 && contents->n > 0)
		r = copy_out(session, contents);
	if (r < 0)
		array_contents_fini(contents);
	return r;
}

int array_contents_keep(struct session *session)
{
	array_contents_fini(session->array_contents);
	return contents_make(session, session->array_contents);
}

void array_contents_fini(struct array_contents *contents)
{
	if (contents->n > 0)
		closep(&contents->fd);
	account_free(contents->of);
	*contents = (struct array_contents){0};
}

/* ---- into arrays */

static struct saved_array *find_saved(const struct session *session, uint32_t id)
{
	const struct array_contents *contents = session->array_contents;

	for (uint32_t low = 0, high = contents->n; low < high;) {
		uint32_t middle = low + (high - low) / 2;

		if (contents->of[middle].id == id)
			return &contents->of[middle];
		if (contents->of[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

bool array_contents_has(const struct session *session, uint32_t id)
{
	return recorded_is_replay(session) && find_saved(session, id);
}

CUresult array_contents_restore(struct session *session, struct array *array)
{
	struct array_contents *contents = session->array_contents;
	const struct saved_array *saved = find_saved(session, array->id);
	struct transfer transfer = {.session = session, .fd = contents->fd, .at = saved->at};
	CUresult result;

	if (!transfer_begin(&transfer))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = transfer_array(&transfer, array);
	transfer_end(&transfer);
	/* Another driver may make other levels. */
	if (result == CUDA_SUCCESS && transfer.at != saved->at + saved->bytes)
		result = CUDA_ERROR_INVALID_VALUE;
	array->bytes = saved->bytes;
	if (--contents->n_left == 0)
		array_contents_fini(contents);
	return result;
}

/* ---- on their way */

static void contents_pack(const struct array_contents *contents, struct pack *pack)
{
	pack_put_number(pack, contents->n);
	for (uint32_t i = 0; i < contents->n; i++) {
		pack_put_number(pack, contents->of[i].id);
		pack_put_number(pack, contents->of[i].bytes);
	}
	if (contents->n > 0)
		pack_put_fd(pack, fcntl(contents->fd, F_DUPFD_CLOEXEC, 0));
}

/* Arrays that were not made yet have their contents in the file that came. */
int array_contents_pack(struct session *session, struct pack *pack)
{
	struct array_contents contents = {0};
	int r = session->script ? 0 : contents_make(session, &contents);

	if (r == 0)
		contents_pack(session->script ? session->array_contents : &contents, pack);
	array_contents_fini(&contents);
	return r;
}

/* The descriptor is the pack's. IDs ascend, so each is there once. */
static int contents_read(
	struct session *session, struct pack *pack, struct array_contents *contents)
{
	const uint64_t n = pack_get_number(pack, WIRE_ARRAYS_MAX);
	uint64_t at = 0;

	*contents = (struct array_contents){.fd = -EBADF};
	if (pack->is_bad || n == 0)
		return pack->is_bad ? -EBADMSG : 0;
	contents->of = account_alloc(session->account, n * sizeof(*contents->of), 0);
	if (!contents->of)
		return -ENOMEM;
	for (uint64_t i = 0; i < n; i++) {
		const uint64_t id = pack_get_number(pack, WIRE_ARRAYS_MAX - 1);
		const uint64_t bytes = pack_get_number(pack, INT64_MAX - at);

		if (pack->is_bad || (i > 0 && id <= contents->of[i - 1].id))
			return -EBADMSG;
		contents->of[i] = (struct saved_array){(uint32_t)id, at, bytes};
		at += bytes;
	}
	contents->n_left = contents->n = (uint32_t)n;
	contents->fd = pack_get_fd(pack);
	return memory_file_ok(contents->fd, at) ? 0 : -EBADMSG;
}

int array_contents_check(struct session *session, struct pack *pack)
{
	struct array_contents contents;
	int r = contents_read(session, pack, &contents);

	account_free(contents.of);
	return r;
}

int array_contents_unpack(struct session *session, struct pack *pack)
{
	int r = contents_read(session, pack, session->array_contents);

	if (r < 0)
		array_contents_fini(session->array_contents);
	return r;
}
