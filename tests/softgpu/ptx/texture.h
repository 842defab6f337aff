/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_TEXTURE_H
#define PTX_TEXTURE_H

/*
 * A texture or surface for a running kernel: texels in levels, and how they are read.
 * The driver half creates them and keeps them while it reports them; nothing here
 * changes one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PTX_LEVELS_MAX 18

enum ptx_texel_kind {
	PTX_TEXEL_UINT,
	PTX_TEXEL_SINT,
	PTX_TEXEL_UNORM, /* read as a float from 0 to 1 */
	PTX_TEXEL_SNORM, /* from -1 to 1 */
	PTX_TEXEL_FLOAT,
};

/* The numbers are those of CUaddress_mode. */
enum ptx_address_mode {
	PTX_ADDRESS_WRAP,
	PTX_ADDRESS_CLAMP,
	PTX_ADDRESS_MIRROR,
	PTX_ADDRESS_BORDER,
};

struct ptx_level {
	uint8_t *bytes;
	size_t pitch, slice;
	uint32_t size[3]; /* texels, rows, slices or layers; none is 0 */
};

struct ptx_texture {
	struct ptx_level levels[PTX_LEVELS_MAX];
	uint32_t n_levels;
	enum ptx_texel_kind kind;
	uint32_t bits, n_channels;
	uint32_t size;        /* of a texel, bytes */
	bool is_memory;       /* on linear memory: texels outside read as zeros */
	bool is_normalized;   /* coordinates from 0 to 1 */
	bool is_linear;       /* filtered within a level */
	bool is_level_linear; /* and between levels */
	enum ptx_address_mode modes[3];
	float bias, level_min, level_max;
	float border[4];
};

/* A coordinate for each direction that the texture has. */
struct ptx_point {
	float at[3];
	int32_t texel[3]; /* if is_texel: unfiltered, and not normalised */
	bool is_texel;
	uint32_t n;    /* directions */
	int32_t layer; /* -1: it has no layers */
};

union ptx_texel {
	uint32_t u32[4];
	float f32[4];
};

/* Reads one filtered value; channels that the format does not have are 0, 0, 0, 1. */
union ptx_texel ptx_texture_sample(
	const struct ptx_texture *texture, const struct ptx_point *point, float level);

/* One channel of the four texels that a linear filter would read, from below left against the sun.
 */
union ptx_texel ptx_texture_gather(
	const struct ptx_texture *texture, const struct ptx_point *point, uint32_t channel);

#endif
