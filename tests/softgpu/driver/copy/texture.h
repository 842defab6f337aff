/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXTURE_H
#define TEXTURE_H

/* Texture and surface objects, which kernels know by number. */

#include "tests/softgpu/driver/driver.h"

struct context;
struct ptx_texture;

/* For ptx_launch: any thread, without a lock. NULL if there is none. */
const struct ptx_texture *texture_lookup(void *user, uint64_t value, bool is_surface);

/* Destroys all objects of this context; under the driver's lock. */
void textures_free_context(struct context *context);

#endif
