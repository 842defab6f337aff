/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Texture and surface objects. Any thread of the application.
 *
 * Invariant: an object in a bucket is in use, and has the value that kernels use. A
 * texture and a surface may have the same value.
 */

#include "texture.h"

#include "array.h"
#include "calls_array.h"
#include "lock.h"
#include "texel.h"
#include "wire.h"
#include "client/util/slab.h"
#include "client/transport/route.h"
#include "client/memory/memory.h"
#include "send_array.h"

#define BUCKETS 1024u

static struct slab textures = {
	.lock = LOCK_INIT(SLAB),
	.object_size = sizeof(struct texture),
	.n_max = WIRE_TEXTURES_MAX,
};

static struct lock buckets_lock = LOCK_INIT(TEXTURES);
static struct texture *buckets[BUCKETS];

static struct texture **bucket_of(uint64_t value)
{
	return &buckets[(value ^ value >> 32) % BUCKETS];
}

static void texture_note(struct texture *texture)
{
	lock_hold(&buckets_lock);
	LIST_PUSH(*bucket_of(texture->value), texture);
}

/*
 * A copy of the object's description. `is_taken': also removes it from its bucket.
 * NULL: no such object.
 */
static struct texture *texture_find(uint64_t value, bool is_surface, bool is_taken)
{
	struct texture **link = bucket_of(value), *found;

	lock_hold(&buckets_lock);
	while (*link && ((*link)->value != value || (*link)->is_surface != is_surface))
		link = &(*link)->next;
	found = *link;
	if (found && is_taken)
		*link = found->next;
	return found;
}

struct texture *texture_find_texture(CUtexObject value)
{
	return texture_find(value, false, false);
}

struct texture *texture_find_surface(CUsurfObject value)
{
	return texture_find(value, true, false);
}

static CUresult texture_end(struct texture *texture)
{
	CUresult result = send_texture_destroy(slab_id(&textures, texture));

	slab_give(&textures, texture);
	return result;
}

void textures_end_context(struct context *context)
{
	for (unsigned i = 0; i < textures.n_ever; i++) {
		struct texture *texture =
			slab_find(&textures, textures.base + i * sizeof(*texture));

		if (texture && texture->context == context &&
			texture_find(texture->value, texture->is_surface, true))
			(void)texture_end(texture);
	}
}

static struct sampler sampler_of(const CUDA_TEXTURE_DESC *desc)
{
	struct sampler sampler = {
		.filter = desc->filterMode,
		.flags = desc->flags,
		.max_anisotropy = desc->maxAnisotropy,
		.mipmap_filter = desc->mipmapFilterMode,
		.level_bias = desc->mipmapLevelBias,
		.level_min = desc->minMipmapLevelClamp,
		.level_max = desc->maxMipmapLevelClamp,
		.border0 = desc->borderColor[0],
		.border1 = desc->borderColor[1],
		.border2 = desc->borderColor[2],
		.border3 = desc->borderColor[3],
	};

	for (unsigned i = 0; i < 3; i++)
		sampler.address_modes |= ((uint32_t)desc->addressMode[i] & 0xff) << (8 * i);
	return sampler;
}

static struct view view_of(const CUDA_RESOURCE_VIEW_DESC *desc)
{
	return (struct view){
		.width = desc->width,
		.height = desc->height,
		.depth = desc->depth,
		.format = desc->format,
		.level_first = desc->firstMipmapLevel,
		.level_last = desc->lastMipmapLevel,
		.layer_first = desc->firstLayer,
		.layer_last = desc->lastLayer,
	};
}

static CUresult send_on_array(struct texture *texture, const struct array *array)
{
	struct sampler sampler = sampler_of(&texture->sampler);
	struct view view = view_of(&texture->view);
	uint32_t id = slab_id(&textures, texture);

	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	if (texture->is_surface)
		return send_surface_create(id, array_id(array), &texture->value);
	return send_texture_create(
		id, array_id(array), &sampler, 1, &view, texture->has_view, &texture->value);
}

/* A texture on linear memory. The owner of the memory is checked here, the rest by the driver. */
static CUresult send_on_memory(struct texture *texture, CUdeviceptr address, unsigned format,
	unsigned n_channels, uint64_t width, uint64_t height, uint64_t pitch, uint64_t size)
{
	struct sampler sampler = sampler_of(&texture->sampler);
	struct memory_range range;

	if (texture->is_surface || texture->has_view || width == 0 ||
		texel_size(format, n_channels) == 0 || (n_channels & (n_channels - 1)) ||
		!memory_find(address, &range))
		return CUDA_ERROR_INVALID_VALUE;
	return send_texture_linear(slab_id(&textures, texture), texture->context->device->index,
		address, format, n_channels, width, height, pitch, size, &sampler, 1,
		&texture->value);
}

static CUresult texture_send(struct texture *texture)
{
	const CUDA_RESOURCE_DESC *desc = &texture->resource;

	switch (desc->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		return send_on_array(texture, array_find(desc->res.array.hArray));
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		if (texture->is_surface)
			return CUDA_ERROR_INVALID_VALUE;
		return send_on_array(
			texture, array_find_mipmapped(desc->res.mipmap.hMipmappedArray));
	case CU_RESOURCE_TYPE_LINEAR:
		return send_on_memory(texture, desc->res.linear.devPtr, desc->res.linear.format,
			desc->res.linear.numChannels, desc->res.linear.sizeInBytes, 0, 0,
			desc->res.linear.sizeInBytes);
	case CU_RESOURCE_TYPE_PITCH2D:
		if (desc->res.pitch2D.height == 0)
			return CUDA_ERROR_INVALID_VALUE;
		return send_on_memory(texture, desc->res.pitch2D.devPtr, desc->res.pitch2D.format,
			desc->res.pitch2D.numChannels, desc->res.pitch2D.width,
			desc->res.pitch2D.height, desc->res.pitch2D.pitchInBytes, 0);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult texture_new(const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *sampler,
	const CUDA_RESOURCE_VIEW_DESC *view, CUtexObject *ret_value)
{
	struct context *context;
	struct texture *texture;
	CUresult result = context_enter(&context);

	if (result != CUDA_SUCCESS)
		return result;
	texture = slab_take(&textures);
	if (!texture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	texture->context = context;
	texture->resource = *resource;
	texture->is_surface = !sampler;
	if (sampler)
		texture->sampler = *sampler;
	texture->has_view = view != NULL;
	if (view)
		texture->view = *view;
	result = texture_send(texture);
	if (result != CUDA_SUCCESS) {
		slab_give(&textures, texture);
		return result;
	}
	*ret_value = texture->value;
	texture_note(texture);
	return CUDA_SUCCESS;
}

CUresult texture_destroy(uint64_t value, bool is_surface)
{
	/* The driver does not tell what is no texture. */
	struct texture *texture = texture_find(value, is_surface, true);

	return texture ? texture_end(texture) : CUDA_SUCCESS;
}

CUresult local_cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format,
	unsigned numChannels, struct device *device)
{
	uint64_t width;
	CUresult result;

	result = send_texture_linear_max(device->index, format, numChannels, &width);
	if (result == CUDA_SUCCESS)
		*maxWidthInElements = width;
	return result;
}
