/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resource views, checked as NVIDIA documents them. Any thread.
 */

#include "view.h"

#include "texel.h"

/* Has a format of its own for each kind of channel, in three widths. */
static bool format_read(CUresourceViewFormat format, struct view *view)
{
	static const CUarray_format kinds[] = {CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_SIGNED_INT8,
		CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16, CU_AD_FORMAT_UNSIGNED_INT32,
		CU_AD_FORMAT_SIGNED_INT32, CU_AD_FORMAT_HALF, CU_AD_FORMAT_FLOAT};
	uint32_t size = texel_size(view->format, view->n_channels);
	unsigned at = format - CU_RES_VIEW_FORMAT_UINT_1X8;

	if (format == CU_RES_VIEW_FORMAT_NONE)
		return true;
	if (at / 3 >= ARRAY_SIZE(kinds))
		return false;
	view->format = kinds[at / 3];
	view->n_channels = 1u << at % 3;
	return texel_size(view->format, view->n_channels) == size;
}

/* An array without layers has one, the first, whatever its depth is. */
static bool layers_read(const CUDA_RESOURCE_VIEW_DESC *desc, const CUDA_ARRAY3D_DESCRIPTOR *shape,
	struct view *view)
{
	const bool has_layers = shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);

	if (!has_layers)
		return desc->firstLayer == 0 && desc->lastLayer == 0;
	if (desc->firstLayer > desc->lastLayer || desc->lastLayer >= view->n_layers)
		return false;
	view->first_layer = desc->firstLayer;
	view->n_layers = desc->lastLayer - desc->firstLayer + 1;
	return true;
}

static bool levels_read(const CUDA_RESOURCE_VIEW_DESC *desc, struct view *view)
{
	if (desc->firstMipmapLevel > desc->lastMipmapLevel ||
		desc->lastMipmapLevel >= view->n_levels)
		return false;
	view->first_level = desc->firstMipmapLevel;
	view->n_levels = desc->lastMipmapLevel - desc->firstMipmapLevel + 1;
	return true;
}

CUresult view_read(const CUDA_RESOURCE_VIEW_DESC *desc, const CUDA_ARRAY3D_DESCRIPTOR *shape,
	unsigned n_levels, struct view *ret_view)
{
	struct view view = {.format = shape->Format,
		.n_channels = shape->NumChannels,
		.n_levels = n_levels,
		.n_layers = (uint32_t)MAX(shape->Depth, 1u)};

	if (desc && !format_read(desc->format, &view))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (desc && (desc->width != shape->Width || desc->height != shape->Height ||
			    desc->depth != shape->Depth || !levels_read(desc, &view) ||
			    !layers_read(desc, shape, &view)))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_view = view;
	return CUDA_SUCCESS;
}
