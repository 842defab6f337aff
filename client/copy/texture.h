/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXTURE_H
#define TEXTURE_H

/*
 * Texture and surface objects: numbers of the real driver's, with what they
 * were made of. Any thread.
 */

#include "client/device/context.h"

/* Ends those of a context that goes. */
void textures_end_context(struct context *context);

#endif
