/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIEW_H
#define VIEW_H

/* Resource views: which texels of an array a texture shows, and how it reads them. */

#include "tests/softgpu/driver/driver.h"

struct view {
	CUarray_format format;
	uint32_t n_channels;
	unsigned first_level, n_levels;
	uint32_t first_layer, n_layers; /* or slices */
};

/*
 * The view `desc' of an array with `n_levels' levels; NULL: all of the array, as it is.
 * CUDA_ERROR_NOT_SUPPORTED: the format is compressed, or has larger or smaller texels.
 */
CUresult view_read(const CUDA_RESOURCE_VIEW_DESC *desc, const CUDA_ARRAY3D_DESCRIPTOR *shape,
	unsigned n_levels, struct view *ret_view);

#endif
