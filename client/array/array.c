/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Creating, finding, describing and ending arrays. Any thread of the application.
 *
 * Invariant: a level becomes an object when the program first asks for it, and
 * exists until its mipmapped array ends. The server is told of the level's end
 * first.
 */

#include "array.h"

#include "calls_array.h"
#include "lock.h"
#include "texel.h"
#include "wire.h"
#include "client/util/slab.h"
#include "client/transport/route.h"
#include "client/stream/stream.h"
#include "client/memory/pool.h"
#include "send_array.h"

#define SERVED_FLAGS                                                                               \
	(CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |                 \
		CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEPTH_TEXTURE |                         \
		CUDA_ARRAY3D_COLOR_ATTACHMENT)
#define REFUSED_FLAGS                                                                              \
	(CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_VIDEO_ENCODE_DECODE)

static struct slab arrays = {
	.lock = LOCK_INIT(SLAB),
	.object_size = sizeof(struct array),
	.n_max = WIRE_ARRAYS_MAX,
};

static struct lock levels_lock = LOCK_INIT(ARRAY_LEVELS);

struct array *array_find(CUarray handle)
{
	struct array *array = slab_find(&arrays, handle);

	return array && array->n_levels == 0 ? array : NULL;
}

struct array *array_find_mipmapped(CUmipmappedArray handle)
{
	struct array *array = slab_find(&arrays, handle);

	return array && array->n_levels > 0 ? array : NULL;
}

uint32_t array_id(const struct array *array)
{
	return slab_id(&arrays, array);
}

void array_size(const struct array *array, struct array_size *ret_size)
{
	uint32_t element = texel_size(array->shape.Format, array->shape.NumChannels);

	*ret_size = (struct array_size){
		.width = array->shape.Width * element,
		.height = MAX(array->shape.Height, 1u),
		.depth = MAX(array->shape.Depth, 1u),
		.element = element,
	};
}

static CUresult array_shape_check(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	uint32_t n = shape->NumChannels;

	if (shape->Width == 0 || (n != 1 && n != 2 && n != 4) ||
		(shape->Flags & ~(unsigned)(SERVED_FLAGS | REFUSED_FLAGS)) || shape->Format > 255)
		return CUDA_ERROR_INVALID_VALUE;
	if (shape->Flags & REFUSED_FLAGS)
		return refuse("cuArray3DCreate", "sparse arrays, arrays without memory and arrays "
						 "for video encoding are not supported");
	if (texel_size(shape->Format, n) == 0)
		return refuse(
			"cuArray3DCreate", "block-compressed and planar formats are not supported");
	return CUDA_SUCCESS;
}

/* The number of levels, limited to what the shape allows. */
static unsigned levels_of(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned wanted)
{
	bool is_layered = shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
	uint64_t longest = MAX(shape->Width, shape->Height);
	unsigned most = 1;

	if (!is_layered)
		longest = MAX(longest, shape->Depth);
	for (; longest > 1 && most < LEVELS_MAX; longest >>= 1)
		most++;
	return MIN(MAX(wanted, 1u), most);
}

static CUresult array_send_create(const struct array *array)
{
	const CUDA_ARRAY3D_DESCRIPTOR *shape = &array->shape;

	return send_array_create(array_id(array), array->context->device->index, shape->Width,
		shape->Height, shape->Depth, shape->Format, shape->NumChannels, shape->Flags,
		array->n_levels);
}

static CUresult array_new(
	const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned n_levels, struct array **ret_array)
{
	struct context *context;
	struct array *array;
	CUresult result = context_enter(&context);

	if (result == CUDA_SUCCESS)
		result = array_shape_check(shape);
	if (result != CUDA_SUCCESS)
		return result;
	array = slab_take(&arrays);
	if (!array)
		return CUDA_ERROR_OUT_OF_MEMORY;
	array->context = context;
	array->shape = *shape;
	array->n_levels = n_levels;
	result = array_send_create(array);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && pools_make_space(context->device))
		result = array_send_create(array);
	if (result != CUDA_SUCCESS) {
		slab_give(&arrays, array);
		return result;
	}
	*ret_array = array;
	return CUDA_SUCCESS;
}

static void array_end(struct array *array)
{
	for (unsigned i = 0; i < array->n_levels; i++) {
		if (!array->levels[i])
			continue;
		(void)send_array_destroy(array_id(array->levels[i]));
		slab_give(&arrays, array->levels[i]);
	}
	(void)send_array_destroy(array_id(array));
	slab_give(&arrays, array);
}

void arrays_end_context(struct context *context)
{
	for (unsigned i = 0; i < arrays.n_ever; i++) {
		struct array *array = slab_find(&arrays, arrays.base + i * sizeof(*array));

		if (array && array->context == context && !array->is_level)
			array_end(array);
	}
}

CUresult array_enter(const void *handle, bool is_mipmapped, struct array **ret_array)
{
	const struct array *slot = slab_slot(&arrays, handle);

	*ret_array = is_mipmapped ? array_find_mipmapped((CUmipmappedArray)handle)
				  : array_find((CUarray)handle);
	return *ret_array ? CUDA_SUCCESS : context_missing(slot ? slot->context : NULL);
}

/* Waits as the driver does, but only for this process's work. */
CUresult array_destroy(struct array *array)
{
	CUresult result;

	if (array->is_level)
		return CUDA_ERROR_INVALID_HANDLE;
	result = streams_wait_device(array->context->device->index);
	if (result != CUDA_SUCCESS)
		return result;
	array_end(array);
	return server_link_late_error(&server);
}

CUresult local_cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
	struct array *array = NULL;
	CUresult result = array_new(pAllocateArray, 0, &array);

	if (result == CUDA_SUCCESS)
		*pHandle = (CUarray)array;
	return result;
}

CUresult local_cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {0};

	shape.Width = pAllocateArray->Width;
	shape.Height = pAllocateArray->Height;
	shape.Format = pAllocateArray->Format;
	shape.NumChannels = pAllocateArray->NumChannels;
	return local_cuArray3DCreate_v2(pHandle, &shape);
}

CUresult local_cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
	const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc, unsigned int numMipmapLevels)
{
	struct array *array = NULL;
	CUresult result = array_new(
		pMipmappedArrayDesc, levels_of(pMipmappedArrayDesc, numMipmapLevels), &array);

	if (result == CUDA_SUCCESS)
		*pHandle = (CUmipmappedArray)array;
	return result;
}

/* Under levels_lock. */
static CUresult level_new(struct array *mipmap, unsigned level)
{
	struct array *array = slab_take(&arrays);
	uint64_t size[3];
	CUresult result;

	if (!array)
		return CUDA_ERROR_OUT_OF_MEMORY;
	array->context = mipmap->context;
	array->shape = mipmap->shape;
	array->is_level = true;
	result = send_array_level(array_id(array), array_id(mipmap), level, size);
	if (result != CUDA_SUCCESS) {
		slab_give(&arrays, array);
		return result;
	}
	array->shape.Width = size[0];
	array->shape.Height = size[1];
	array->shape.Depth = size[2];
	mipmap->levels[level] = array;
	return CUDA_SUCCESS;
}

CUresult local_cuMipmappedArrayGetLevel(
	CUarray *pLevelArray, struct array *mipmap, unsigned int level)
{
	CUresult result = CUDA_SUCCESS;

	lock_hold(&levels_lock);
	if (!mipmap->levels[level])
		result = level_new(mipmap, level);
	if (result == CUDA_SUCCESS)
		*pLevelArray = (CUarray)mipmap->levels[level];
	return result;
}
