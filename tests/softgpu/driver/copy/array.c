/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays and mipmapped arrays: creation, description, destruction.
 *
 * Runs in any thread, under the driver's lock. A new array has contents of an
 * earlier array, as a GPU's may.
 */

#include "array.h"

#include <string.h>

#include "texel.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/driver/stream/stream.h"

#define ARRAY_ALIGN 512
#define FLAGS                                                                                      \
	(CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |                 \
		CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEPTH_TEXTURE |                         \
		CUDA_ARRAY3D_COLOR_ATTACHMENT)

/* The first word of the array that was freed last, with which the next array is filled. */
static uint32_t leftover = 0xcdcdcdcd;
static struct array *arrays;
static struct mipmap *mipmaps;

struct array *array_find(CUarray handle)
{
	return object_find(OBJECT_ARRAY, handle);
}

struct mipmap *mipmap_find(CUmipmappedArray handle)
{
	return object_find(OBJECT_MIPMAP, handle);
}

static bool is_layered(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	return shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
}

static bool is_shape_allowed(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	const bool is_cube = shape->Flags & CUDA_ARRAY3D_CUBEMAP;

	if (shape->Width == 0 || shape->NumChannels > 4 || shape->NumChannels == 3 ||
		shape->NumChannels == 0 || (shape->Flags & ~(unsigned)FLAGS))
		return false;
	if (is_cube && (shape->Width != shape->Height || shape->Depth % 6 != 0 ||
			       (shape->Depth != 6 && !(shape->Flags & CUDA_ARRAY3D_LAYERED))))
		return false;
	if (is_layered(shape))
		return shape->Depth > 0 && shape->Depth <= 2048 && shape->Width <= 32768 &&
		       shape->Height <= 32768;
	if (shape->Depth > 0)
		return shape->Height > 0 && shape->Width <= 16384 && shape->Height <= 16384 &&
		       shape->Depth <= 16384;
	return shape->Width <= 131072 && shape->Height <= 65536;
}

static void array_free(struct array *array)
{
	device_refund(array->context->device, array->size);
	stat_add(STAT_ARRAYS, -1);
	object_remove(&array->object);
	memcpy(&leftover, array->bytes, sizeof(leftover));
	free(array->bytes);
	free(array);
}

static CUresult array_alloc(struct array *array)
{
	CUresult result;

	array->pitch = array->shape.Width * array->element;
	array->slice = array->pitch * MAX(array->shape.Height, 1u);
	array->size = ALIGN_UP(array->slice * MAX(array->shape.Depth, 1u), ARRAY_ALIGN);
	result = device_charge(array->context->device, array->size);
	if (result != CUDA_SUCCESS)
		return result;
	array->bytes = malloc(array->size);
	if (!array->bytes) {
		device_refund(array->context->device, array->size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (size_t at = 0; at < array->size; at += sizeof(leftover))
		memcpy(array->bytes + at, &leftover, sizeof(leftover));
	return CUDA_SUCCESS;
}

static CUresult array_new(const CUDA_ARRAY3D_DESCRIPTOR *shape, struct array **ret_array)
{
	struct array *array = calloc(1, sizeof(*array));
	CUresult result;

	if (!array)
		return CUDA_ERROR_OUT_OF_MEMORY;
	array->context = context_current();
	array->shape = *shape;
	array->element = texel_size(shape->Format, shape->NumChannels);
	result = array->element ? array_alloc(array) : CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS) {
		free(array);
		return result;
	}
	object_add(&array->object, OBJECT_ARRAY);
	stat_add(STAT_ARRAYS, 1);
	*ret_array = array;
	return CUDA_SUCCESS;
}

static CUresult array_create(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	struct array *array;
	CUresult result;

	if (!handle || !shape || !is_shape_allowed(shape))
		return CUDA_ERROR_INVALID_VALUE;
	result = array_new(shape, &array);
	if (result != CUDA_SUCCESS)
		return result;
	array->next = arrays;
	arrays = array;
	*handle = (CUarray)array;
	return CUDA_SUCCESS;
}

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
	ENTER(CALL_CONTEXT);
	return array_create(pHandle, pAllocateArray);
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {0};

	ENTER(CALL_CONTEXT);
	if (!pAllocateArray)
		return CUDA_ERROR_INVALID_VALUE;
	shape.Width = pAllocateArray->Width;
	shape.Height = pAllocateArray->Height;
	shape.Format = pAllocateArray->Format;
	shape.NumChannels = pAllocateArray->NumChannels;
	return array_create(pHandle, &shape);
}

static void array_unlink(struct array *array)
{
	struct array **link = &arrays;

	while (*link != array)
		link = &(*link)->next;
	*link = array->next;
	array_free(array);
}

/* Waits for the work of all streams, as the driver does. */
CUresult cuArrayDestroy(CUarray hArray)
{
	struct array *array;
	CUresult result;

	ENTER(CALL_OBJECT);
	array = array_find(hArray);
	if (!array || array->mipmap)
		return CUDA_ERROR_INVALID_HANDLE;
	result = device_wait(array->context->device);
	if (result == CUDA_SUCCESS && array_find(hArray) == array)
		array_unlink(array);
	return result;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	const struct array *array;

	ENTER(CALL_OBJECT);
	array = array_find(hArray);
	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pArrayDescriptor)
		return CUDA_ERROR_INVALID_VALUE;
	*pArrayDescriptor = array->shape;
	return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	const struct array *array;

	ENTER(CALL_OBJECT);
	array = array_find(hArray);
	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pArrayDescriptor)
		return CUDA_ERROR_INVALID_VALUE;
	*pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){
		.Width = array->shape.Width,
		.Height = array->shape.Height,
		.Format = array->shape.Format,
		.NumChannels = array->shape.NumChannels,
	};
	return CUDA_SUCCESS;
}

static void mipmap_free(struct mipmap *mipmap)
{
	for (unsigned i = 0; i < mipmap->n_levels; i++)
		array_free(mipmap->levels[i]);
	object_remove(&mipmap->object);
	free(mipmap);
}

static CUDA_ARRAY3D_DESCRIPTOR level_shape(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned level)
{
	CUDA_ARRAY3D_DESCRIPTOR small = *shape;

	small.Width = MAX(shape->Width >> level, 1u);
	if (shape->Height)
		small.Height = MAX(shape->Height >> level, 1u);
	if (shape->Depth && !is_layered(shape))
		small.Depth = MAX(shape->Depth >> level, 1u);
	return small;
}

static unsigned levels_of(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned wanted)
{
	size_t longest = MAX(shape->Width, shape->Height);
	unsigned most = 1;

	if (!is_layered(shape))
		longest = MAX(longest, shape->Depth);
	for (; longest > 1 && most < ARRAY_LEVELS_MAX; longest >>= 1)
		most++;
	return MIN(MAX(wanted, 1u), most);
}

static CUresult mipmap_new(
	const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned n_levels, struct mipmap **ret_mipmap)
{
	struct mipmap *mipmap = calloc(1, sizeof(*mipmap));
	CUresult result = CUDA_SUCCESS;

	if (!mipmap)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mipmap->context = context_current();
	object_add(&mipmap->object, OBJECT_MIPMAP);
	while (result == CUDA_SUCCESS && mipmap->n_levels < n_levels) {
		CUDA_ARRAY3D_DESCRIPTOR small = level_shape(shape, mipmap->n_levels);

		result = array_new(&small, &mipmap->levels[mipmap->n_levels]);
		if (result == CUDA_SUCCESS)
			mipmap->levels[mipmap->n_levels++]->mipmap = mipmap;
	}
	if (result != CUDA_SUCCESS) {
		mipmap_free(mipmap);
		return result;
	}
	*ret_mipmap = mipmap;
	return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
	const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc, unsigned int numMipmapLevels)
{
	struct mipmap *mipmap;
	CUresult result;

	ENTER(CALL_CONTEXT);
	if (!pHandle || !pMipmappedArrayDesc || !is_shape_allowed(pMipmappedArrayDesc))
		return CUDA_ERROR_INVALID_VALUE;
	result = mipmap_new(
		pMipmappedArrayDesc, levels_of(pMipmappedArrayDesc, numMipmapLevels), &mipmap);
	if (result != CUDA_SUCCESS)
		return result;
	mipmap->next = mipmaps;
	mipmaps = mipmap;
	*pHandle = (CUmipmappedArray)mipmap;
	return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(
	CUarray *pLevelArray, CUmipmappedArray hMipmappedArray, unsigned int level)
{
	const struct mipmap *mipmap;

	ENTER(CALL_OBJECT);
	mipmap = mipmap_find(hMipmappedArray);
	if (!mipmap)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pLevelArray || level >= mipmap->n_levels)
		return CUDA_ERROR_INVALID_VALUE;
	*pLevelArray = (CUarray)mipmap->levels[level];
	return CUDA_SUCCESS;
}

static void mipmap_unlink(struct mipmap *mipmap)
{
	struct mipmap **link = &mipmaps;

	while (*link != mipmap)
		link = &(*link)->next;
	*link = mipmap->next;
	mipmap_free(mipmap);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
	struct mipmap *mipmap;
	CUresult result;

	ENTER(CALL_OBJECT);
	mipmap = mipmap_find(hMipmappedArray);
	if (!mipmap)
		return CUDA_ERROR_INVALID_HANDLE;
	result = device_wait(mipmap->context->device);
	if (result == CUDA_SUCCESS && mipmap_find(hMipmappedArray) == mipmap)
		mipmap_unlink(mipmap);
	return result;
}

void arrays_free_context(struct context *context)
{
	for (struct array *array = arrays, *next; array; array = next) {
		next = array->next;
		if (array->context == context)
			array_unlink(array);
	}
	for (struct mipmap *mipmap = mipmaps, *next; mipmap; mipmap = next) {
		next = mipmap->next;
		if (mipmap->context == context)
			mipmap_unlink(mipmap);
	}
}
