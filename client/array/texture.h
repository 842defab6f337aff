/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXTURE_H
#define TEXTURE_H

/* Texture and surface objects: the real driver's values, with their descriptions. Any thread. */

#include "client/util/slab.h"
#include "client/context/context.h"

struct texture {
	struct slab_head slab;
	struct texture *next; /* in the same bucket */
	struct context *context;
	uint64_t value;
	bool is_surface, has_view;
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC sampler;
	CUDA_RESOURCE_VIEW_DESC view;
};

/* NULL: no such object. */
struct texture *texture_find_texture(CUtexObject value);
struct texture *texture_find_surface(CUsurfObject value);

/* `sampler' is NULL for a surface. */
CUresult texture_new(const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *sampler,
	const CUDA_RESOURCE_VIEW_DESC *view, CUtexObject *ret_value);

CUresult texture_destroy(uint64_t value, bool is_surface);

/* Ends the objects of a context that ends. */
void textures_end_context(struct context *context);

#endif
