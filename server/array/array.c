/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Arrays and mipmapped arrays: made, cleared, given back. A worker.
 *
 * Invariant: an array is overwritten with the session's own bytes before the client gets it,
 * because the driver makes arrays of memory that others have used. A level keeps its
 * mipmapped array.
 */

#include "array.h"

#include "messages.h"
#include "texel.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/device/device_quota.h"
#include "server/schedule/gate.h"
#include "server/share/session_devices.h"
#include "server/memory/space.h"
#include "do_array.h"

/* The deferred thread. */
static void array_done(struct deferred *deferred)
{
	struct array *array = container_of(deferred, struct array, deferred);

	if (fault_get() == CUDA_SUCCESS) {
		if (array->mipmap)
			cuda.cuMipmappedArrayDestroy(array->mipmap);
		else if (array->real)
			cuda.cuArrayDestroy(array->real);
	}
	atomic_fetch_sub(&array->memory->closing, array->charged);
	device_quota_refund(array->memory, array->charged);
	device_quota_unref(array->memory);
	account_free(array);
}

struct array *array_ref(struct array *array)
{
	array->refs++;
	return array;
}

void array_unref(struct array *array)
{
	while (array && --array->refs == 0) {
		struct array *parent = array->parent;

		if (parent) {
			device_quota_unref(array->memory);
			account_free(array);
		} else {
			atomic_fetch_add(&array->memory->closing, array->charged);
			deferred_add(&array->deferred);
		}
		array = parent;
	}
}

/* Drops all arrays; the driver's are destroyed later. */
static void arrays_free(struct session *session, _unused_ bool device_lost)
{
	uint32_t at = 0;
	struct array *array;

	while ((array = handle_take(&session->arrays, &at)))
		array_unref(array);
	if (!session->keeps_memory)
		array_contents_fini(session->array_contents);
}

static CUresult array_new(
	struct session *session, uint32_t id, struct session_device *sdev, struct array **ret_array)
{
	struct array *array;
	CUresult result =
		session_object_new(&session->arrays, id, sizeof(*array), KEPT_ARRAY, &array);

	if (result != CUDA_SUCCESS)
		return result;
	array->id = id;
	array->refs = 1;
	array->sdev = sdev;
	array->memory = device_quota_ref(sdev->memory);
	array->deferred.context = sdev->device->context;
	array->deferred.on_done = array_done;
	*ret_array = array;
	return CUDA_SUCCESS;
}

static void set_shape(struct array *array, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	array->width = MAX(shape->Width * texel_size(shape->Format, shape->NumChannels), 1u);
	array->height = MAX(shape->Height, 1u);
	array->depth = MAX(shape->Depth, 1u);
}

CUresult array_wait(struct session *session, CUstream real)
{
	struct gate_wait wait = gate_wait(GATE_ARRAY, session);
	CUresult result;

	while ((result = cuda.cuStreamQuery(real)) == CUDA_ERROR_NOT_READY && gate_again(&wait))
		;
	/* What the stream uses must stay until the end in any case. */
	if (result != CUDA_SUCCESS)
		result = cuda.cuStreamSynchronize(real);
	return fault_note(session, result);
}

/* ---- all bytes of an array */

static CUresult array_size(struct array *array, uint32_t level, uint64_t *ret_bytes)
{
	CUDA_ARRAY3D_DESCRIPTOR shape;
	CUresult result =
		array->mipmap ? cuda.cuMipmappedArrayGetLevel(&array->real, array->mipmap, level)
			      : CUDA_SUCCESS;

	if (result == CUDA_SUCCESS)
		result = cuda.cuArray3DGetDescriptor_v2(&shape, array->real);
	if (result != CUDA_SUCCESS)
		return result;
	set_shape(array, &shape);
	*ret_bytes = array->width * array->height * array->depth;
	return CUDA_SUCCESS;
}

static CUresult each_box_of(
	struct session *session, const struct array *level, array_box_function *function, void *arg)
{
	uint64_t n_rows = MAX(ARRAY_BOX_MAX / level->width, 1u);
	struct array_box box = {0};
	CUresult result = CUDA_SUCCESS;

	for (box.z = 0; box.z < level->depth; box.z += box.n_slices) {
		for (box.y = 0; box.y < level->height; box.y += box.n_rows) {
			if (atomic_load(&session->is_ending) || result != CUDA_SUCCESS)
				return result;
			box.n_rows = MIN(level->height - box.y, n_rows);
			box.n_slices = 1;
			if (box.n_rows == level->height)
				box.n_slices = MIN(level->depth - box.z, n_rows / box.n_rows);
			box.bytes = level->width * box.n_rows * box.n_slices;
			result = function(arg, level, &box);
		}
	}
	return result;
}

CUresult array_each_box(
	struct session *session, const struct array *array, array_box_function *function, void *arg)
{
	struct array level = *array;
	CUresult result = CUDA_SUCCESS;
	uint64_t bytes;

	for (uint32_t i = 0; i < array->n_levels && result == CUDA_SUCCESS; i++) {
		result = array_size(&level, i, &bytes);
		/* The driver may have made fewer levels than requested. */
		if (result == CUDA_ERROR_INVALID_VALUE && i > 0)
			return CUDA_SUCCESS;
		if (result == CUDA_SUCCESS)
			result = each_box_of(session, &level, function, arg);
	}
	return result;
}

/* ---- new arrays */

struct clearing {
	uint64_t scratch; /* bytes of the session, for any box */
	CUstream real;
	uint64_t bytes; /* of the boxes so far */
};

static CUresult clear_box(void *arg, const struct array *level, const struct array_box *box)
{
	struct clearing *clearing = arg;
	const CUDA_MEMCPY3D copy = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = clearing->scratch,
		.srcPitch = level->width,
		.srcHeight = box->n_rows,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = level->real,
		.dstY = box->y,
		.dstZ = box->z,
		.WidthInBytes = level->width,
		.Height = box->n_rows,
		.Depth = box->n_slices,
	};

	clearing->bytes += box->bytes;
	return cuda.cuMemcpy3DAsync_v2(&copy, clearing->real);
}

/*
 * Overwrites all of it with bytes of the session, of any value, on a stream that waits for
 * none of the client's work.
 */
static CUresult array_clear(struct session *session, struct array *array)
{
	struct array first = *array;
	struct clearing clearing = {0};
	int32_t priority = session_device_priority(array->sdev, 0);
	uint64_t bytes;
	CUresult result = array_size(&first, 0, &bytes), waited;

	if (result == CUDA_SUCCESS)
		/* The session's limit must have space for it while the array is made. */
		result = space_take(session, array->sdev,
			MAX(MIN(bytes, ARRAY_BOX_MAX), first.width), &clearing.scratch);
	if (result != CUDA_SUCCESS)
		return result;
	result = session_device_take_stream(session, array->sdev, priority, &clearing.real);
	if (result == CUDA_SUCCESS) {
		result = array_each_box(session, array, clear_box, &clearing);
		waited = array_wait(session, clearing.real);
		result = result == CUDA_SUCCESS ? waited : result;
		if (waited == CUDA_SUCCESS)
			session_device_give_stream(array->sdev, clearing.real, priority);
		else
			session_device_discard_stream(array->sdev, clearing.real);
	}
	array->bytes = clearing.bytes;
	session->has_unused = true;
	arena_free(&array->sdev->arena, clearing.scratch);
	return result;
}

/*
 * Estimates what the driver needs for it: blocks of 64 bytes by 8 rows, slice after slice.
 * The driver reports that only for arrays without memory. 0: too large.
 */
static uint64_t array_estimate(const CUDA_ARRAY3D_DESCRIPTOR *shape, uint32_t n_levels)
{
	bool is_layered = shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	uint64_t element = texel_size(shape->Format, shape->NumChannels), bytes = 0, size;

	for (uint32_t i = 0; i < MAX(n_levels, 1u); i++) {
		uint64_t width = MAX(shape->Width >> i, 1u), height = MAX(shape->Height >> i, 1u);
		uint64_t depth = MAX(is_layered ? shape->Depth : shape->Depth >> i, 1u);

		if (__builtin_mul_overflow(width, element, &size) || size > INT64_MAX ||
			height > UINT32_MAX ||
			__builtin_mul_overflow(ALIGN_UP(size, (uint64_t)64),
				ALIGN_UP(height, (uint64_t)8), &size) ||
			__builtin_mul_overflow(size, depth, &size) ||
			__builtin_add_overflow(bytes, size, &bytes))
			return 0;
	}
	return bytes;
}

static CUresult try_driver(
	struct array *array, const CUDA_ARRAY3D_DESCRIPTOR *shape, uint32_t n_levels)
{
	CUresult result;

	if (n_levels > 0) {
		result = cuda.cuMipmappedArrayCreate(&array->mipmap, shape, n_levels);
		if (result != CUDA_SUCCESS)
			array->mipmap = NULL;
		return result;
	}
	result = cuda.cuArray3DCreate_v2(&array->real, shape);
	if (result != CUDA_SUCCESS)
		array->real = NULL;
	else
		set_shape(array, shape);
	return result;
}

/* Charged to the session's quota. */
static CUresult try_real(
	struct array *array, const CUDA_ARRAY3D_DESCRIPTOR *shape, uint32_t n_levels, uint64_t size)
{
	CUresult result;

	if (!device_quota_charge(array->memory, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = try_driver(array, shape, n_levels);
	if (result == CUDA_SUCCESS)
		array->charged = size;
	else
		device_quota_refund(array->memory, size);
	return result;
}

/* Reclaims unused memory of this session and of others if needed. */
static CUresult array_make_real(struct session *session, struct array *array,
	const CUDA_ARRAY3D_DESCRIPTOR *shape, uint32_t n_levels)
{
	uint64_t size = array_estimate(shape, n_levels);
	CUresult result = try_real(array, shape, n_levels, size);

	for (unsigned i = 0;
		result == CUDA_ERROR_OUT_OF_MEMORY && space_make(session, array->sdev, size, i);
		i++)
		result = try_real(array, shape, n_levels, size);
	return result;
}

CUresult do_array_create(struct session *session, const struct msg_array_create *msg)
{
	const CUDA_ARRAY3D_DESCRIPTOR shape = {
		.Width = msg->width,
		.Height = msg->height,
		.Depth = msg->depth,
		.Format = (CUarray_format)msg->format,
		.NumChannels = msg->channels,
		.Flags = msg->flags,
	};
	struct array *array = NULL;
	struct session_device *sdev;
	CUresult result = session_device_get_entered(session, msg->device, &sdev);

	if (result == CUDA_SUCCESS && texel_size(msg->format, msg->channels) == 0)
		result = CUDA_ERROR_NOT_SUPPORTED;
	if (result == CUDA_SUCCESS)
		result = array_new(session, msg->array, sdev, &array);
	if (result != CUDA_SUCCESS)
		return result;
	result = array_make_real(session, array, &shape, msg->levels);
	array->n_levels = MAX(msg->levels, 1u);
	if (result == CUDA_SUCCESS)
		result = array_contents_has(session, msg->array)
				 ? array_contents_restore(session, array)
				 : array_clear(session, array);
	if (result != CUDA_SUCCESS)
		(void)do_array_destroy(session, array);
	return result;
}

CUresult do_array_destroy(struct session *session, struct array *array)
{
	handle_remove(&session->arrays, array->id);
	array_unref(array);
	return CUDA_SUCCESS;
}

CUresult do_array_level(struct session *session, uint32_t id, struct array *mipmap, uint32_t level,
	uint64_t size[3])
{
	CUDA_ARRAY3D_DESCRIPTOR shape;
	struct array *array = NULL;
	CUarray real = NULL;
	CUresult result = mipmap->mipmap ? session_device_enter(session, mipmap->sdev)
					 : CUDA_ERROR_INVALID_HANDLE;

	if (result == CUDA_SUCCESS)
		result = cuda.cuMipmappedArrayGetLevel(&real, mipmap->mipmap, level);
	if (result == CUDA_SUCCESS)
		result = cuda.cuArray3DGetDescriptor_v2(&shape, real);
	if (result == CUDA_SUCCESS)
		result = array_new(session, id, mipmap->sdev, &array);
	if (result != CUDA_SUCCESS)
		return result;
	array->real = real;
	array->parent = mipmap;
	mipmap->refs++;
	set_shape(array, &shape);
	size[0] = shape.Width;
	size[1] = shape.Height;
	size[2] = shape.Depth;
	return CUDA_SUCCESS;
}

static void arrays_begin(struct session *session, void *part)
{
	session->array_contents = part;
}

const struct session_part arrays_part = {
	.size = sizeof(struct array_contents),
	.begin = arrays_begin,
	.obstacle = array_contents_obstacle,
	.stays = array_contents_stay,
	.pack = array_contents_pack,
	.check = array_contents_check,
	.unpack = array_contents_unpack,
	.end = arrays_free,
	.is_recorded = true,
};
