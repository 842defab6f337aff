/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The arrays, textures and surfaces of the counting driver.
 *
 * Invariant: a box in an array lies within it, and both exist; otherwise abort().
 */

#include <stdlib.h>
#include <string.h>

#include "fake_tables.h"

#define ARRAYS_MAX 1024
#define ELEMENT_MAX 16
#define TEXTURES_MAX 4096
#define TEXTURE_FIRST 0x100000001ull

struct fake_array {
	CUDA_ARRAY3D_DESCRIPTOR shape;
	struct fake_array *parent; /* of a level */
	unsigned n_levels;         /* 0: not mipmapped */
	struct fake_array *levels[32];
};

static struct fake_array *arrays[ARRAYS_MAX];
static bool has_texture[TEXTURES_MAX];

static struct fake_array *array_of(const void *handle, bool is_mipmapped)
{
	for (unsigned i = 0; i < ARRAYS_MAX; i++)
		if (arrays[i] && arrays[i] == handle) {
			must((arrays[i]->n_levels > 0) == is_mipmapped, "another kind of array");
			return arrays[i];
		}
	must(false, "an array that is not there");
	return NULL;
}

static struct fake_array *array_new(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	for (unsigned i = 0; i < ARRAYS_MAX; i++) {
		if (arrays[i])
			continue;
		arrays[i] = fake_alloc(sizeof(*arrays[i]));
		arrays[i]->shape = *shape;
		return arrays[i];
	}
	must(false, "more arrays than a test may");
	return NULL;
}

static void forget(struct fake_array *array)
{
	for (unsigned i = 0; i < ARRAYS_MAX; i++)
		if (arrays[i] == array)
			arrays[i] = NULL;
	free(array);
}

static void array_free(struct fake_array *array)
{
	for (unsigned i = 0; i < array->n_levels; i++)
		forget(array->levels[i]);
	forget(array);
}

static bool is_allowed(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	size_t height = MAX(shape->Height, 1u), depth = MAX(shape->Depth, 1u);

	return shape->Width > 0 && shape->Width <= 131072 && height <= 65536 && depth <= 16384 &&
	       shape->Width * ELEMENT_MAX * height * depth <= FAKE_MEMORY;
}

static CUresult array_create(CUarray *ret, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	BEGIN();
	if (!is_allowed(shape))
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (CUarray)array_new(shape);
	fake_counts.arrays++;
	return CUDA_SUCCESS;
}

static CUresult array_destroy(CUarray handle)
{
	struct fake_array *array;

	BEGIN();
	array = array_of(handle, false);
	must(!array->parent, "a level destroyed");
	array_free(array);
	fake_counts.arrays--;
	return CUDA_SUCCESS;
}

static CUresult array_shape(CUDA_ARRAY3D_DESCRIPTOR *ret, CUarray handle)
{
	BEGIN();
	*ret = array_of(handle, false)->shape;
	return CUDA_SUCCESS;
}

static CUresult mipmap_create(
	CUmipmappedArray *ret, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned n_levels)
{
	CUDA_ARRAY3D_DESCRIPTOR level = *shape;
	struct fake_array *array;

	BEGIN();
	if (!is_allowed(shape))
		return CUDA_ERROR_INVALID_VALUE;
	array = array_new(shape);
	for (unsigned i = 0; i < MIN(n_levels, 3u); i++) {
		array->levels[i] = array_new(&level);
		array->levels[i]->parent = array;
		level.Width = MAX(level.Width / 2, 1u);
		level.Height = MAX(level.Height / 2, level.Height != 0);
	}
	array->n_levels = MIN(n_levels, 3u);
	fake_counts.arrays++;
	*ret = (CUmipmappedArray)array;
	return CUDA_SUCCESS;
}

static CUresult mipmap_level(CUarray *ret, CUmipmappedArray handle, unsigned level)
{
	struct fake_array *array;

	BEGIN();
	array = array_of(handle, true);
	if (level >= array->n_levels)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (CUarray)array->levels[level];
	return CUDA_SUCCESS;
}

static CUresult mipmap_destroy(CUmipmappedArray handle)
{
	BEGIN();
	array_free(array_of(handle, true));
	fake_counts.arrays--;
	return CUDA_SUCCESS;
}

void must_have_box_in_array(CUarray handle, const uint64_t at[3], const uint64_t size[3])
{
	const struct fake_array *array = array_of(handle, false);
	const CUDA_ARRAY3D_DESCRIPTOR *shape = &array->shape;

	must(range_ok(at[0], size[0], shape->Width * ELEMENT_MAX) &&
			range_ok(at[1], size[1], MAX(shape->Height, 1u)) &&
			range_ok(at[2], size[2], MAX(shape->Depth, 1u)),
		"a box outside of its array");
}

static CUresult texture_new(uint64_t *ret)
{
	for (unsigned i = 0; i < TEXTURES_MAX; i++) {
		if (has_texture[i])
			continue;
		has_texture[i] = true;
		fake_counts.textures++;
		*ret = TEXTURE_FIRST + i;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static void must_be_line(uint64_t address, uint64_t size)
{
	must_be_reached(address, size);
	fake_calls.last_texture_size = size;
}

static CUresult texture_create(CUtexObject *ret, const CUDA_RESOURCE_DESC *resource,
	const CUDA_TEXTURE_DESC *sampler, const CUDA_RESOURCE_VIEW_DESC *view)
{
	BEGIN();
	(void)view;
	must(sampler != NULL, "a texture that is not sampled");
	if (resource->resType == CU_RESOURCE_TYPE_ARRAY)
		array_of(resource->res.array.hArray, false);
	else if (resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
		array_of(resource->res.mipmap.hMipmappedArray, true);
	else if (resource->resType == CU_RESOURCE_TYPE_LINEAR)
		must_be_line(resource->res.linear.devPtr, resource->res.linear.sizeInBytes);
	else
		must_be_reached(resource->res.pitch2D.devPtr, 1);
	return texture_new((uint64_t *)ret);
}

static CUresult surface_create(CUsurfObject *ret, const CUDA_RESOURCE_DESC *resource)
{
	BEGIN();
	must(resource->resType == CU_RESOURCE_TYPE_ARRAY, "a surface of something else");
	array_of(resource->res.array.hArray, false);
	return texture_new((uint64_t *)ret);
}

static CUresult texture_destroy(CUtexObject value)
{
	BEGIN();
	must(value - TEXTURE_FIRST < TEXTURES_MAX && has_texture[value - TEXTURE_FIRST],
		"a texture that is not there");
	has_texture[value - TEXTURE_FIRST] = false;
	fake_counts.textures--;
	return CUDA_SUCCESS;
}

void fake_array_start(void)
{
	cuda.cuArray3DCreate_v2 = array_create;
	cuda.cuArrayDestroy = array_destroy;
	cuda.cuArray3DGetDescriptor_v2 = array_shape;
	cuda.cuMipmappedArrayCreate = mipmap_create;
	cuda.cuMipmappedArrayGetLevel = mipmap_level;
	cuda.cuMipmappedArrayDestroy = mipmap_destroy;
	cuda.cuTexObjectCreate = texture_create;
	cuda.cuTexObjectDestroy = texture_destroy;
	cuda.cuSurfObjectCreate = surface_create;
	cuda.cuSurfObjectDestroy = texture_destroy;
}
