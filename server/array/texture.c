/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Texture and surface objects, and tensor maps. A worker.
 *
 * Invariant: an object is made on an array or memory that belongs to the session at that
 * time. Its value is the driver's. Kernels use the value, which the server cannot check.
 */

#include "array.h"
#include "messages.h"
#include "texel.h"
#include "texture_real.h"
#include "server/session/fault.h"
#include "server/session/recorded.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/share/session_device.h"
#include "do_array.h"

/* The deferred thread. */
static void texture_done(struct deferred *deferred)
{
	struct texture *texture = container_of(deferred, struct texture, deferred);

	if (fault_get() == CUDA_SUCCESS)
		texture_real_end(texture->is_surface, texture->real);
	account_free(texture);
}

/* Drops all objects; the driver's are destroyed later. */
static void textures_free(struct session *session, _unused_ bool device_lost)
{
	struct texture *texture;
	uint32_t at = 0;

	while ((texture = handle_take(&session->textures, &at)))
		deferred_add(&texture->deferred);
	texture_real_forget(session);
}

/* In another server, before any session makes a texture. */
static int textures_unpack(struct session *session, _unused_ struct pack *pack)
{
	texture_real_expect(session);
	return 0;
}

/*
 * A kernel that still runs may use the object, and the driver reuses its value as soon as it
 * is destroyed.
 */
CUresult do_texture_destroy(struct session *session, struct texture *texture)
{
	handle_remove(&session->textures, texture->id);
	deferred_add(&texture->deferred);
	return CUDA_SUCCESS;
}

static CUresult texture_new(struct session *session, uint32_t id, struct session_device *sdev,
	struct texture **ret_texture)
{
	struct texture *texture;
	CUresult result = session_object_new(
		&session->textures, id, sizeof(*texture), KEPT_TEXTURE, &texture);

	if (result != CUDA_SUCCESS)
		return result;
	texture->id = id;
	texture->deferred.context = sdev->device->context;
	texture->deferred.on_done = texture_done;
	*ret_texture = texture;
	return CUDA_SUCCESS;
}

/* Makes an object from the descriptors; `view' and `texture' are NULL for a surface. */
static CUresult texture_make(struct session *session, uint32_t id, struct session_device *sdev,
	const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *sampler,
	const CUDA_RESOURCE_VIEW_DESC *view, uint64_t *ret_value)
{
	const struct object_desc desc = {resource, sampler, view};
	struct texture *texture = NULL;
	CUresult result = session_device_enter(session, sdev);

	if (result == CUDA_SUCCESS)
		result = texture_new(session, id, sdev, &texture);
	if (result != CUDA_SUCCESS)
		return result;
	texture->is_surface = !sampler;
	if (recorded_is_replay(session)) {
		texture->real = recorded_answer(session);
		result = texture_real_make_again(session, &desc, texture->real);
	} else
		result = texture_real_make(&desc, &texture->real);
	if (result != CUDA_SUCCESS) {
		account_free(handle_remove(&session->textures, id));
		return result;
	}
	*ret_value = texture->real;
	return CUDA_SUCCESS;
}

static CUDA_TEXTURE_DESC sampler_of(const struct sampler *said)
{
	CUDA_TEXTURE_DESC sampler = {
		.filterMode = (CUfilter_mode)said->filter,
		.flags = said->flags,
		.maxAnisotropy = said->max_anisotropy,
		.mipmapFilterMode = (CUfilter_mode)said->mipmap_filter,
		.mipmapLevelBias = said->level_bias,
		.minMipmapLevelClamp = said->level_min,
		.maxMipmapLevelClamp = said->level_max,
	};

	for (unsigned i = 0; i < 3; i++)
		sampler.addressMode[i] = (CUaddress_mode)(said->address_modes >> (8 * i) & 0xff);
	sampler.borderColor[0] = said->border0;
	sampler.borderColor[1] = said->border1;
	sampler.borderColor[2] = said->border2;
	sampler.borderColor[3] = said->border3;
	return sampler;
}

static CUDA_RESOURCE_VIEW_DESC view_of(const struct view *said)
{
	return (CUDA_RESOURCE_VIEW_DESC){
		.format = (CUresourceViewFormat)said->format,
		.width = said->width,
		.height = said->height,
		.depth = said->depth,
		.firstMipmapLevel = said->level_first,
		.lastMipmapLevel = said->level_last,
		.firstLayer = said->layer_first,
		.lastLayer = said->layer_last,
	};
}

CUresult do_texture_create(struct session *session, struct array *array,
	const struct msg_texture_create *msg, const struct sampler *samplers,
	const struct view *views, uint64_t *ret_value)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
	CUDA_TEXTURE_DESC sampler = sampler_of(samplers);
	CUDA_RESOURCE_VIEW_DESC view = {0};

	if (array->mipmap) {
		resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
		resource.res.mipmap.hMipmappedArray = array->mipmap;
	} else
		resource.res.array.hArray = array->real;
	if (msg->n_views > 0)
		view = view_of(views);
	return texture_make(session, msg->texture, array->sdev, &resource, &sampler,
		msg->n_views > 0 ? &view : NULL, ret_value);
}

CUresult do_surface_create(
	struct session *session, uint32_t id, struct array *array, uint64_t *ret_value)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};

	if (array->mipmap)
		return CUDA_ERROR_INVALID_VALUE;
	resource.res.array.hArray = array->real;
	return texture_make(session, id, array->sdev, &resource, NULL, NULL, ret_value);
}

/* Bytes from the first to the last that a texture on memory reads; 0: there is no such memory. */
static uint64_t texture_extent(uint32_t element, uint64_t width, uint64_t height, uint64_t pitch)
{
	uint64_t row, rest;

	if (__builtin_mul_overflow(width, (uint64_t)element, &row) || pitch < row ||
		__builtin_mul_overflow(pitch, height - 1, &rest) ||
		__builtin_add_overflow(rest, row, &row))
		return 0;
	return row;
}

/*
 * How many of `size' bytes a texture without rows may use; 0: none. The driver does not
 * check where memory ends, and programs name more than there is. So the texture ends with
 * the last whole element of the memory that the session may use, and reads as zeros beyond.
 */
static uint64_t line_size(struct session *session, const struct device *device, uint64_t address,
	uint32_t element, uint64_t size)
{
	const int32_t *attribute = device->facts.attribute;
	uint64_t low = 0, high;

	if (size == 0 || memory_check(session, address, size))
		return size;
	high = element > 0 ? size / element : 0;
	/* Checks the size that the program named, as the driver would. */
	if (high > (uint64_t)attribute[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH])
		return 0;
	while (low < high) {
		uint64_t middle = high - (high - low) / 2;

		if (memory_check(session, address, middle * element))
			low = middle;
		else
			high = middle - 1;
	}
	return low * element;
}

CUresult do_texture_linear(struct session *session, const struct msg_texture_linear *msg,
	const struct sampler *samplers, uint64_t *ret_value)
{
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
	CUDA_TEXTURE_DESC sampler = sampler_of(samplers);
	struct session_device *sdev = session_device_get(session, msg->device);
	uint32_t element = texel_size(msg->format, msg->channels);
	uint64_t size;

	if (!sdev)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (msg->height > 0)
		size = texture_extent(element, msg->width, msg->height, msg->pitch);
	else
		size = line_size(session, sdev->device, msg->address, element, msg->size);
	if (size == 0 || (msg->height > 0 && !memory_check(session, msg->address, size)))
		return CUDA_ERROR_INVALID_VALUE;
	if (msg->height > 0) {
		resource.resType = CU_RESOURCE_TYPE_PITCH2D;
		resource.res.pitch2D.devPtr = msg->address;
		resource.res.pitch2D.format = (CUarray_format)msg->format;
		resource.res.pitch2D.numChannels = msg->channels;
		resource.res.pitch2D.width = msg->width;
		resource.res.pitch2D.height = msg->height;
		resource.res.pitch2D.pitchInBytes = msg->pitch;
	} else {
		resource.res.linear.devPtr = msg->address;
		resource.res.linear.format = (CUarray_format)msg->format;
		resource.res.linear.numChannels = msg->channels;
		resource.res.linear.sizeInBytes = size;
	}
	return texture_make(session, msg->texture, sdev, &resource, &sampler, NULL, ret_value);
}

CUresult do_texture_linear_max(_unused_ struct session *session, uint32_t device, uint32_t format,
	uint32_t n_channels, uint64_t *ret_width)
{
	const struct device *gpu = device_get(device);
	size_t width = 0;
	CUresult result;

	if (!gpu)
		return CUDA_ERROR_INVALID_DEVICE;
	result = cuda.cuDeviceGetTexture1DLinearMaxWidth(
		&width, (CUarray_format)format, n_channels, gpu->handle);
	if (result == CUDA_SUCCESS)
		*ret_width = width;
	return result;
}

const struct session_part textures_part = {
	.unpack = textures_unpack,
	.end = textures_free,
	.is_recorded = true,
};
