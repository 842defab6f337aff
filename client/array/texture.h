/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXTURE_H
#define TEXTURE_H

/* Texture and surface objects: the real driver's values, with their descriptions. Any thread. */

#include "client/context/context.h"

/* NULL: no such object. */
struct texture *texture_find_texture(CUtexObject value);
struct texture *texture_find_surface(CUsurfObject value);

CUresult texture_destroy(uint64_t value, bool is_surface);

/* Ends the objects of a context that ends. */
void textures_end_context(struct context *context);

#endif
