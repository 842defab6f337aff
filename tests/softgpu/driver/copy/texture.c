/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texture and surface objects: their memory, and how kernels read it.
 *
 * Entry points run in any thread, under the driver's lock; texture_lookup() in
 * streams' threads without it. The memory of an object is never freed: its
 * number is given out again.
 */

#include "texture.h"

#include <stdatomic.h>
#include <string.h>

#include "array.h"
#include "texel.h"
#include "view.h"
#include "tests/softgpu/driver/memory/memory.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/ptx/texture.h"

#define OBJECTS_MAX 65536u
/* Numbers that differ from every pointer and from likely wrong values. */
#define TEXTURE_FIRST 0x7e0000000000ull
#define SURFACE_FIRST 0x5f0000000000ull
#define LINEAR_ALIGN 512u
#define PITCH_ALIGN 32u
#define LINE_MAX_TEXELS (1u << 28)

/* The description from which it was created, for queries. */
struct origin {
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC sampler;
	CUDA_RESOURCE_VIEW_DESC view;
	bool has_view;
};

struct object_place {
	struct ptx_texture texture;
	struct origin origin;
	struct context *context;
	atomic_bool is_used;
};

struct table {
	uint64_t first;
	_Atomic(struct object_place *) places[OBJECTS_MAX];
};

static struct table textures = {.first = TEXTURE_FIRST}, surfaces = {.first = SURFACE_FIRST};

static struct object_place *place_of(struct table *table, uint64_t value)
{
	struct object_place *place;

	if (value - table->first >= OBJECTS_MAX)
		return NULL;
	place = atomic_load(&table->places[value - table->first]);
	return place && atomic_load(&place->is_used) ? place : NULL;
}

const struct ptx_texture *texture_lookup(void *user, uint64_t value, bool is_surface)
{
	struct object_place *place = place_of(is_surface ? &surfaces : &textures, value);

	(void)user;
	return place ? &place->texture : NULL;
}

static CUresult table_add(struct table *table, const struct ptx_texture *texture,
	const struct origin *origin, unsigned long long *ret_value)
{
	for (uint32_t i = 0; i < OBJECTS_MAX; i++) {
		struct object_place *place = atomic_load(&table->places[i]);

		if (place && atomic_load(&place->is_used))
			continue;
		if (!place)
			place = calloc(1, sizeof(*place));
		if (!place)
			break;
		place->texture = *texture;
		place->origin = *origin;
		place->context = context_current();
		atomic_store(&place->is_used, true);
		atomic_store(&table->places[i], place);
		stat_add(STAT_TEXTURES, 1);
		*ret_value = table->first + i;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult table_remove(struct table *table, uint64_t value)
{
	struct object_place *place = place_of(table, value);

	if (!place)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store(&place->is_used, false);
	stat_add(STAT_TEXTURES, -1);
	return CUDA_SUCCESS;
}

static void table_end_context(struct table *table, const struct context *context)
{
	for (uint32_t i = 0; i < OBJECTS_MAX; i++) {
		struct object_place *place = atomic_load(&table->places[i]);

		if (!place)
			return;
		if (atomic_load(&place->is_used) && place->context == context)
			table_remove(table, table->first + i);
	}
}

void textures_free_context(struct context *context)
{
	table_end_context(&textures, context);
	table_end_context(&surfaces, context);
}

static void format_set(
	struct ptx_texture *texture, CUarray_format format, uint32_t n_channels, bool is_integer)
{
	static const struct {
		CUarray_format format;
		enum ptx_texel_kind kind;
		uint32_t bits, n_channels; /* 0: from the format */
	} formats[] = {
		{CU_AD_FORMAT_UNSIGNED_INT8, PTX_TEXEL_UINT, 8, 0},
		{CU_AD_FORMAT_UNSIGNED_INT16, PTX_TEXEL_UINT, 16, 0},
		{CU_AD_FORMAT_UNSIGNED_INT32, PTX_TEXEL_UINT, 32, 0},
		{CU_AD_FORMAT_SIGNED_INT8, PTX_TEXEL_SINT, 8, 0},
		{CU_AD_FORMAT_SIGNED_INT16, PTX_TEXEL_SINT, 16, 0},
		{CU_AD_FORMAT_SIGNED_INT32, PTX_TEXEL_SINT, 32, 0},
		{CU_AD_FORMAT_HALF, PTX_TEXEL_FLOAT, 16, 0},
		{CU_AD_FORMAT_FLOAT, PTX_TEXEL_FLOAT, 32, 0},
		{CU_AD_FORMAT_UNORM_INT8X1, PTX_TEXEL_UNORM, 8, 1},
		{CU_AD_FORMAT_UNORM_INT8X2, PTX_TEXEL_UNORM, 8, 2},
		{CU_AD_FORMAT_UNORM_INT8X4, PTX_TEXEL_UNORM, 8, 4},
		{CU_AD_FORMAT_UNORM_INT16X1, PTX_TEXEL_UNORM, 16, 1},
		{CU_AD_FORMAT_UNORM_INT16X2, PTX_TEXEL_UNORM, 16, 2},
		{CU_AD_FORMAT_UNORM_INT16X4, PTX_TEXEL_UNORM, 16, 4},
		{CU_AD_FORMAT_SNORM_INT8X1, PTX_TEXEL_SNORM, 8, 1},
		{CU_AD_FORMAT_SNORM_INT8X2, PTX_TEXEL_SNORM, 8, 2},
		{CU_AD_FORMAT_SNORM_INT8X4, PTX_TEXEL_SNORM, 8, 4},
		{CU_AD_FORMAT_SNORM_INT16X1, PTX_TEXEL_SNORM, 16, 1},
		{CU_AD_FORMAT_SNORM_INT16X2, PTX_TEXEL_SNORM, 16, 2},
		{CU_AD_FORMAT_SNORM_INT16X4, PTX_TEXEL_SNORM, 16, 4},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(formats); i++) {
		if (formats[i].format != format)
			continue;
		texture->kind = formats[i].kind;
		texture->bits = formats[i].bits;
		texture->n_channels = formats[i].n_channels ? formats[i].n_channels : n_channels;
	}
	texture->size = texel_size(format, n_channels);
	if (texture->bits < 32 && !is_integer && texture->kind == PTX_TEXEL_UINT)
		texture->kind = PTX_TEXEL_UNORM;
	if (texture->bits < 32 && !is_integer && texture->kind == PTX_TEXEL_SINT)
		texture->kind = PTX_TEXEL_SNORM;
}

/* A level of an array with slices has fewer of them; the view of one with layers has its own. */
static void level_add(
	struct ptx_texture *texture, const struct array *array, const struct view *view)
{
	const uint32_t depth = (uint32_t)MAX(array->shape.Depth, 1u);

	texture->levels[texture->n_levels++] = (struct ptx_level){
		.bytes = array->bytes + view->first_layer * array->slice,
		.pitch = array->pitch,
		.slice = array->slice,
		.size = {(uint32_t)array->shape.Width, (uint32_t)MAX(array->shape.Height, 1u),
			MIN(depth, view->n_layers)},
	};
}

static CUresult look_at_levels(struct ptx_texture *texture, struct array *const *levels,
	unsigned n_levels, const CUDA_RESOURCE_VIEW_DESC *desc, bool is_integer)
{
	struct view view;
	CUresult result = view_read(desc, &levels[0]->shape, n_levels, &view);

	if (result != CUDA_SUCCESS)
		return result;
	format_set(texture, view.format, view.n_channels, is_integer);
	for (unsigned i = 0; i < view.n_levels; i++)
		level_add(texture, levels[view.first_level + i], &view);
	return CUDA_SUCCESS;
}

static CUresult look_at_array(struct ptx_texture *texture, struct array *array,
	const CUDA_RESOURCE_VIEW_DESC *desc, bool is_integer)
{
	return array ? look_at_levels(texture, &array, 1, desc, is_integer)
		     : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult look_at_mipmap(struct ptx_texture *texture, const struct mipmap *mipmap,
	const CUDA_RESOURCE_VIEW_DESC *desc, bool is_integer)
{
	return mipmap ? look_at_levels(texture, mipmap->levels, mipmap->n_levels, desc, is_integer)
		      : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult look_at_memory(struct ptx_texture *texture, CUdeviceptr address,
	CUarray_format format, uint32_t n_channels, size_t width, size_t height, size_t pitch,
	bool is_integer)
{
	uint32_t size = texel_size(format, n_channels);
	size_t reach;

	if (size == 0 || width == 0 || address % LINEAR_ALIGN != 0 || pitch % PITCH_ALIGN != 0)
		return CUDA_ERROR_INVALID_VALUE;
	/* The driver does not check the end of a line; a kernel that reads beyond it faults. */
	reach = texture->is_memory ? 1 : (height - 1) * pitch + width * size;
	if ((height > 1 && pitch < width * size) || !range_reaches(address, reach, NULL))
		return CUDA_ERROR_INVALID_VALUE;
	format_set(texture, format, n_channels, is_integer);
	texture->levels[texture->n_levels++] = (struct ptx_level){
		.bytes = (uint8_t *)(uintptr_t)address,
		.pitch = pitch,
		.size = {(uint32_t)width, (uint32_t)height, 1},
	};
	return CUDA_SUCCESS;
}

static CUresult look_at(struct ptx_texture *texture, const CUDA_RESOURCE_DESC *resource,
	const CUDA_RESOURCE_VIEW_DESC *view, bool is_integer)
{
	const bool is_array = resource->resType == CU_RESOURCE_TYPE_ARRAY ||
			      resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
	uint32_t size;
	size_t width;

	if (view && !is_array)
		return CUDA_ERROR_INVALID_VALUE;
	switch (resource->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		return look_at_array(
			texture, array_find(resource->res.array.hArray), view, is_integer);
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		return look_at_mipmap(texture, mipmap_find(resource->res.mipmap.hMipmappedArray),
			view, is_integer);
	case CU_RESOURCE_TYPE_LINEAR:
		size = texel_size(resource->res.linear.format, resource->res.linear.numChannels);
		width = size ? resource->res.linear.sizeInBytes / size : 0;
		if (width > LINE_MAX_TEXELS)
			return CUDA_ERROR_INVALID_VALUE;
		texture->is_memory = true;
		return look_at_memory(texture, resource->res.linear.devPtr,
			resource->res.linear.format, resource->res.linear.numChannels, width, 1, 0,
			is_integer);
	case CU_RESOURCE_TYPE_PITCH2D:
		if (resource->res.pitch2D.height == 0)
			return CUDA_ERROR_INVALID_VALUE;
		return look_at_memory(texture, resource->res.pitch2D.devPtr,
			resource->res.pitch2D.format, resource->res.pitch2D.numChannels,
			resource->res.pitch2D.width, resource->res.pitch2D.height,
			resource->res.pitch2D.pitchInBytes, is_integer);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static void sampler_set(struct ptx_texture *texture, const CUDA_TEXTURE_DESC *desc)
{
	texture->is_normalized = desc->flags & CU_TRSF_NORMALIZED_COORDINATES;
	texture->is_linear = desc->filterMode == CU_TR_FILTER_MODE_LINEAR;
	texture->is_level_linear = desc->mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
	for (unsigned i = 0; i < 3; i++)
		texture->modes[i] = (enum ptx_address_mode)desc->addressMode[i];
	texture->bias = desc->mipmapLevelBias;
	texture->level_min = desc->minMipmapLevelClamp;
	texture->level_max = desc->maxMipmapLevelClamp;
	memcpy(texture->border, desc->borderColor, sizeof(texture->border));
}

/* Not supported here: sRGB, filters of several samples, comparing with a depth. */
static bool is_sampler_known(const CUDA_TEXTURE_DESC *desc)
{
	for (unsigned i = 0; i < 3; i++)
		if ((unsigned)desc->addressMode[i] > CU_TR_ADDRESS_MODE_BORDER)
			return false;
	return !(desc->flags & (CU_TRSF_SRGB | CU_TRSF_SEAMLESS_CUBEMAP)) &&
	       desc->maxAnisotropy <= 1;
}

CUresult cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
	const CUDA_TEXTURE_DESC *pTexDesc, const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
	struct ptx_texture texture = {.n_levels = 0};
	struct origin origin = {.has_view = pResViewDesc != NULL};
	bool is_integer;
	CUresult result;

	ENTER(CALL_CONTEXT);
	if (!pTexObject || !pResDesc || !pTexDesc)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_sampler_known(pTexDesc))
		return CUDA_ERROR_NOT_SUPPORTED;
	is_integer = pTexDesc->flags & CU_TRSF_READ_AS_INTEGER;
	result = look_at(&texture, pResDesc, pResViewDesc, is_integer);
	if (result != CUDA_SUCCESS)
		return result;
	sampler_set(&texture, pTexDesc);
	if (texture.is_linear && is_integer &&
		(texture.kind == PTX_TEXEL_UINT || texture.kind == PTX_TEXEL_SINT))
		return CUDA_ERROR_INVALID_VALUE;
	origin.resource = *pResDesc;
	origin.sampler = *pTexDesc;
	if (pResViewDesc)
		origin.view = *pResViewDesc;
	return table_add(&textures, &texture, &origin, pTexObject);
}

CUresult cuTexObjectDestroy(CUtexObject texObject)
{
	ENTER(CALL_CONTEXT);
	(void)table_remove(&textures, texObject);
	return CUDA_SUCCESS;
}

CUresult cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc)
{
	struct ptx_texture surface = {.n_levels = 0};
	struct origin origin = {.has_view = false};
	struct array *array;
	CUresult result;

	ENTER(CALL_CONTEXT);
	if (!pSurfObject || !pResDesc || pResDesc->resType != CU_RESOURCE_TYPE_ARRAY)
		return CUDA_ERROR_INVALID_VALUE;
	array = array_find(pResDesc->res.array.hArray);
	result = look_at_array(&surface, array, NULL, true);
	if (result != CUDA_SUCCESS)
		return result;
	if (!(array->shape.Flags & CUDA_ARRAY3D_SURFACE_LDST))
		return CUDA_ERROR_INVALID_VALUE;
	origin.resource = *pResDesc;
	return table_add(&surfaces, &surface, &origin, pSurfObject);
}

CUresult cuSurfObjectDestroy(CUsurfObject surfObject)
{
	ENTER(CALL_CONTEXT);
	(void)table_remove(&surfaces, surfObject);
	return CUDA_SUCCESS;
}

/* The origin of an object for a query into `ret'; NULL if either is missing. */
static const struct origin *origin_of(struct table *table, uint64_t value, const void *ret)
{
	const struct object_place *place = place_of(table, value);

	return place && ret ? &place->origin : NULL;
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)
{
	const struct origin *origin;

	ENTER(CALL_CONTEXT);
	origin = origin_of(&textures, texObject, pResDesc);
	if (!origin)
		return CUDA_ERROR_INVALID_VALUE;
	*pResDesc = origin->resource;
	return CUDA_SUCCESS;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject)
{
	const struct origin *origin;

	ENTER(CALL_CONTEXT);
	origin = origin_of(&textures, texObject, pTexDesc);
	if (!origin)
		return CUDA_ERROR_INVALID_VALUE;
	*pTexDesc = origin->sampler;
	return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceViewDesc(
	CUDA_RESOURCE_VIEW_DESC *pResViewDesc, CUtexObject texObject)
{
	const struct origin *origin;

	ENTER(CALL_CONTEXT);
	origin = origin_of(&textures, texObject, pResViewDesc);
	if (!origin)
		return CUDA_ERROR_INVALID_VALUE;
	/* As driver 580 on an H100, which writes nothing if there is no view. */
	if (origin->has_view)
		*pResViewDesc = origin->view;
	return CUDA_SUCCESS;
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject)
{
	const struct origin *origin;

	ENTER(CALL_CONTEXT);
	origin = origin_of(&surfaces, surfObject, pResDesc);
	if (!origin)
		return CUDA_ERROR_INVALID_VALUE;
	*pResDesc = origin->resource;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(
	size_t *maxWidthInElements, CUarray_format format, unsigned numChannels, CUdevice dev)
{
	ENTER(CALL_ALIVE);
	if (!maxWidthInElements || !texel_size(format, numChannels))
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*maxWidthInElements = LINE_MAX_TEXELS;
	return CUDA_SUCCESS;
}
