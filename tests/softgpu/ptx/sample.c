/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sampling of textures. Runs on the thread that runs the kernel.
 *
 * Weights of a linear filter have 8 fractional bits, and 1.0 is possible, as on the
 * GPU. Coordinates are first rounded to that grid, half a step up.
 */

#include <math.h>
#include <string.h>

#include "base.h"
#include "float.h"
#include "texture.h"

#define STEPS 256
#define FAR 0x1p29f /* beyond it, a coordinate is outside in any case */

/* One texel of each direction, or nothing. */
#define OUTSIDE (-1)

static bool is_float(const struct ptx_texture *texture)
{
	return texture->kind != PTX_TEXEL_UINT && texture->kind != PTX_TEXEL_SINT;
}

static float channel_float(const struct ptx_texture *texture, const uint8_t *at)
{
	uint32_t raw = 0;
	float most;
	int32_t value;

	memcpy(&raw, at, texture->bits / 8);
	if (texture->kind == PTX_TEXEL_FLOAT)
		return texture->bits == 16 ? ptx_f16_to_f32((uint16_t)raw) : ptx_f32_from(raw);
	if (texture->kind == PTX_TEXEL_UNORM)
		return (float)raw / (texture->bits == 8 ? 255.0f : 65535.0f);
	most = texture->bits == 8 ? 127.0f : 32767.0f;
	value = (int32_t)(raw << (32 - texture->bits)) >> (32 - texture->bits);
	return MAX((float)value / most, -1.0f);
}

static uint32_t channel_integer(const struct ptx_texture *texture, const uint8_t *at)
{
	uint32_t raw = 0, shift = 32 - texture->bits;

	memcpy(&raw, at, texture->bits / 8);
	return texture->kind == PTX_TEXEL_SINT ? (uint32_t)((int32_t)(raw << shift) >> shift) : raw;
}

static union ptx_texel absent(const struct ptx_texture *texture)
{
	union ptx_texel texel = {{0}};

	if (is_float(texture))
		texel.f32[3] = 1;
	else
		texel.u32[3] = 1;
	return texel;
}

static union ptx_texel border(const struct ptx_texture *texture)
{
	union ptx_texel texel = absent(texture);

	for (uint32_t i = 0; i < texture->n_channels && !texture->is_memory; i++)
		if (is_float(texture))
			texel.f32[i] = texture->border[i];
		else
			texel.u32[i] = (uint32_t)(int64_t)texture->border[i];
	return texel;
}

static union ptx_texel texel_read(
	const struct ptx_texture *texture, const struct ptx_level *level, const int32_t at[3])
{
	union ptx_texel texel = absent(texture);
	const uint8_t *bytes = level->bytes;

	if (at[0] == OUTSIDE || at[1] == OUTSIDE || at[2] == OUTSIDE)
		return border(texture);
	bytes += (size_t)at[2] * level->slice + (size_t)at[1] * level->pitch +
		 (size_t)at[0] * texture->size;
	for (uint32_t i = 0; i < texture->n_channels; i++, bytes += texture->bits / 8)
		if (is_float(texture))
			texel.f32[i] = channel_float(texture, bytes);
		else
			texel.u32[i] = channel_integer(texture, bytes);
	return texel;
}

static int32_t modulo(int64_t i, int64_t n)
{
	return (int32_t)((i % n + n) % n);
}

/* The position of a texel index: inside, or OUTSIDE. */
static int32_t address(const struct ptx_texture *texture, uint32_t direction, int64_t i, int64_t n)
{
	enum ptx_address_mode mode = texture->modes[direction];
	int32_t folded;

	if (i >= 0 && i < n)
		return (int32_t)i;
	if (texture->is_memory || mode == PTX_ADDRESS_BORDER)
		return OUTSIDE;
	if (mode == PTX_ADDRESS_CLAMP || !texture->is_normalized)
		return (int32_t)MIN(MAX(i, 0), n - 1);
	if (mode == PTX_ADDRESS_WRAP)
		return modulo(i, n);
	folded = modulo(i, 2 * n);
	return (int32_t)(folded < n ? folded : 2 * n - 1 - folded);
}

/* A coordinate in texels of a level. */
static float in_texels(const struct ptx_texture *texture, float x, uint32_t n)
{
	if (texture->is_normalized)
		x *= (float)n;
	return x == x ? MIN(MAX(x, -FAR), FAR) : 0;
}

/* The two texels of a direction that a linear filter reads, and the second one's weight. */
static int64_t footprint(
	const struct ptx_texture *texture, float x, uint32_t n, uint32_t *ret_weight)
{
	double steps = floor(((double)in_texels(texture, x, n) - 0.5) * STEPS + 0.5);
	int64_t first = (int64_t)floor(steps / STEPS);

	*ret_weight = (uint32_t)(steps - (double)first * STEPS);
	return first;
}

static int32_t layer_of(const struct ptx_level *level, const struct ptx_point *point)
{
	return MIN(MAX(point->layer, 0), (int32_t)level->size[2] - 1);
}

static union ptx_texel sample_nearest(const struct ptx_texture *texture,
	const struct ptx_level *level, const struct ptx_point *point)
{
	int32_t at[3] = {0, 0, point->layer >= 0 ? layer_of(level, point) : 0};

	for (uint32_t i = 0; i < point->n; i++) {
		int64_t texel =
			point->is_texel
				? point->texel[i]
				: (int64_t)floorf(in_texels(texture, point->at[i], level->size[i]));

		at[i] = address(texture, i, texel, level->size[i]);
	}
	return texel_read(texture, level, at);
}

static union ptx_texel sample_linear(const struct ptx_texture *texture,
	const struct ptx_level *level, const struct ptx_point *point)
{
	int32_t at[3] = {0, 0, point->layer >= 0 ? layer_of(level, point) : 0};
	union ptx_texel sum = {{0}};
	uint32_t weights[3];
	int64_t first[3];

	for (uint32_t i = 0; i < point->n; i++)
		first[i] = footprint(texture, point->at[i], level->size[i], &weights[i]);
	for (uint32_t corner = 0; corner < 1u << point->n; corner++) {
		union ptx_texel texel;
		float weight = 1;

		for (uint32_t i = 0; i < point->n; i++) {
			uint32_t is_second = corner >> i & 1;

			weight *= (float)(is_second ? weights[i] : STEPS - weights[i]) / STEPS;
			at[i] = address(texture, i, first[i] + is_second, level->size[i]);
		}
		if (weight == 0)
			continue;
		texel = texel_read(texture, level, at);
		for (unsigned i = 0; i < 4; i++)
			sum.f32[i] += weight * texel.f32[i];
	}
	return sum;
}

static union ptx_texel sample_level(
	const struct ptx_texture *texture, const struct ptx_point *point, uint32_t level)
{
	const struct ptx_level *of = &texture->levels[MIN(level, texture->n_levels - 1)];

	if (texture->is_linear && is_float(texture) && !point->is_texel)
		return sample_linear(texture, of, point);
	return sample_nearest(texture, of, point);
}

union ptx_texel ptx_texture_sample(
	const struct ptx_texture *texture, const struct ptx_point *point, float level)
{
	union ptx_texel low, high;
	uint32_t steps;

	if (texture->n_levels == 1)
		return sample_level(texture, point, 0);
	level = level == level ? level + texture->bias : 0;
	level = MIN(MAX(level, texture->level_min), texture->level_max);
	level = MIN(MAX(level, 0.0f), (float)(texture->n_levels - 1));
	if (!texture->is_level_linear)
		return sample_level(texture, point, (uint32_t)(level + 0.5f));
	steps = (uint32_t)(level * STEPS + 0.5f);
	low = sample_level(texture, point, steps / STEPS);
	if (steps % STEPS == 0 || !is_float(texture))
		return low;
	high = sample_level(texture, point, steps / STEPS + 1);
	for (unsigned i = 0; i < 4; i++)
		low.f32[i] += (float)(steps % STEPS) / STEPS * (high.f32[i] - low.f32[i]);
	return low;
}

union ptx_texel ptx_texture_gather(
	const struct ptx_texture *texture, const struct ptx_point *point, uint32_t channel)
{
	static const uint32_t corners[4][2] = {{0, 1}, {1, 1}, {1, 0}, {0, 0}};
	const struct ptx_level *level = &texture->levels[0];
	union ptx_texel gathered;
	uint32_t weight;
	int64_t first[2];

	for (uint32_t i = 0; i < 2; i++)
		first[i] = footprint(texture, point->at[i], level->size[i], &weight);
	for (unsigned k = 0; k < 4; k++) {
		int32_t at[3] = {0, 0, point->layer >= 0 ? layer_of(level, point) : 0};

		for (uint32_t i = 0; i < 2; i++)
			at[i] = address(texture, i, first[i] + corners[k][i], level->size[i]);
		gathered.u32[k] = texel_read(texture, level, at).u32[channel];
	}
	return gathered;
}
