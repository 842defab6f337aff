/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Descriptions of arrays, textures, views and surfaces, read back: of every kind of array and of
 * the levels of mipmapped arrays, of every kind of memory that a texture has, and of each part of
 * an array that it shows.
 */

#define NAME "descriptions"
#include <string.h>

#include "../helpers/driver_program.h"

static CUdeviceptr memory;

static void setup(void)
{
	CUcontext context;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAlloc(&memory, 65536));
}

static void check_array(CUarray array, const CUDA_ARRAY3D_DESCRIPTOR *wanted)
{
	CUDA_ARRAY3D_DESCRIPTOR got;
	CUDA_ARRAY_DESCRIPTOR flat;

	memset(&got, 0xff, sizeof(got));
	memset(&flat, 0xff, sizeof(flat));
	CHECK(cuArray3DGetDescriptor(&got, array));
	MUST(got.Width == wanted->Width && got.Height == wanted->Height);
	MUST(got.Depth == wanted->Depth && got.Format == wanted->Format);
	MUST(got.NumChannels == wanted->NumChannels && got.Flags == wanted->Flags);
	CHECK(cuArrayGetDescriptor(&flat, array));
	MUST(flat.Width == wanted->Width && flat.Height == wanted->Height);
	MUST(flat.Format == wanted->Format && flat.NumChannels == wanted->NumChannels);
}

static void arrays(void)
{
	static const CUDA_ARRAY3D_DESCRIPTOR kinds[] = {
		{256, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0},
		{256, 64, 0, CU_AD_FORMAT_SIGNED_INT16, 2, 0},
		{256, 64, 8, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST},
		{64, 32, 4, CU_AD_FORMAT_UNSIGNED_INT8, 4,
			CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST},
		{64, 0, 5, CU_AD_FORMAT_SIGNED_INT16, 1, CUDA_ARRAY3D_LAYERED},
		{32, 32, 6, CU_AD_FORMAT_HALF, 2, CUDA_ARRAY3D_CUBEMAP},
		{64, 32, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_TEXTURE_GATHER},
	};
	CUarray array;

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		CHECK(cuArray3DCreate(&array, &kinds[i]));
		check_array(array, &kinds[i]);
		CHECK(cuArrayDestroy(array));
	}
}

static void levels(void)
{
	CUDA_ARRAY3D_DESCRIPTOR level = {64, 32, 0, CU_AD_FORMAT_FLOAT, 1, 0};
	CUmipmappedArray mipmap;
	CUarray array;

	CHECK(cuMipmappedArrayCreate(&mipmap, &level, 4));
	for (unsigned i = 0; i < 4; i++) {
		CHECK(cuMipmappedArrayGetLevel(&array, mipmap, i));
		check_array(array, &level);
		level.Width /= 2;
		level.Height /= 2;
	}
	CHECK(cuMipmappedArrayDestroy(mipmap));
}

/* Makes a texture, reads its descriptions, and compares what the resource's kind uses. */
static void check_texture(const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *texture)
{
	CUDA_RESOURCE_VIEW_DESC view;
	CUDA_RESOURCE_DESC got;
	CUDA_TEXTURE_DESC how;
	CUtexObject object;

	CHECK(cuTexObjectCreate(&object, resource, texture, NULL));
	memset(&got, 0, sizeof(got));
	CHECK(cuTexObjectGetResourceDesc(&got, object));
	MUST(got.resType == resource->resType && got.flags == resource->flags);
	if (got.resType == CU_RESOURCE_TYPE_ARRAY)
		MUST(got.res.array.hArray == resource->res.array.hArray);
	else if (got.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
		MUST(got.res.mipmap.hMipmappedArray == resource->res.mipmap.hMipmappedArray);
	else if (got.resType == CU_RESOURCE_TYPE_LINEAR)
		MUST(!memcmp(&got.res.linear, &resource->res.linear, sizeof(got.res.linear)));
	else
		MUST(!memcmp(&got.res.pitch2D, &resource->res.pitch2D, sizeof(got.res.pitch2D)));
	memset(&how, 0, sizeof(how));
	CHECK(cuTexObjectGetTextureDesc(&how, object));
	MUST(!memcmp(how.addressMode, texture->addressMode, sizeof(how.addressMode)));
	MUST(how.filterMode == texture->filterMode && how.flags == texture->flags);
	MUST(how.maxAnisotropy == texture->maxAnisotropy);
	MUST(how.mipmapFilterMode == texture->mipmapFilterMode);
	MUST(how.mipmapLevelBias == texture->mipmapLevelBias);
	MUST(how.minMipmapLevelClamp == texture->minMipmapLevelClamp);
	MUST(how.maxMipmapLevelClamp == texture->maxMipmapLevelClamp);
	/* Without a view, the call writes nothing. */
	memset(&view, 0xee, sizeof(view));
	CHECK(cuTexObjectGetResourceViewDesc(&view, object));
	MUST(view.width == 0xeeeeeeeeeeeeeeee && view.lastLayer == 0xeeeeeeee);
	CHECK(cuTexObjectDestroy(object));
}

static void textures(void)
{
	const CUDA_ARRAY3D_DESCRIPTOR flat = {64, 32, 0, CU_AD_FORMAT_FLOAT, 1, 0};
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC texture;
	CUmipmappedArray mipmap;
	CUarray array;

	memset(&resource, 0, sizeof(resource));
	memset(&texture, 0, sizeof(texture));
	CHECK(cuArray3DCreate(&array, &flat));
	CHECK(cuMipmappedArrayCreate(&mipmap, &flat, 4));
	resource.resType = CU_RESOURCE_TYPE_ARRAY;
	resource.res.array.hArray = array;
	check_texture(&resource, &texture);
	resource.resType = CU_RESOURCE_TYPE_LINEAR;
	resource.res.linear.devPtr = memory;
	resource.res.linear.format = CU_AD_FORMAT_FLOAT;
	resource.res.linear.numChannels = 1;
	resource.res.linear.sizeInBytes = 1000;
	check_texture(&resource, &texture);
	texture.addressMode[0] = CU_TR_ADDRESS_MODE_CLAMP;
	texture.filterMode = CU_TR_FILTER_MODE_LINEAR;
	texture.flags = CU_TRSF_NORMALIZED_COORDINATES;
	memset(&resource, 0, sizeof(resource));
	resource.resType = CU_RESOURCE_TYPE_PITCH2D;
	resource.res.pitch2D.devPtr = memory;
	resource.res.pitch2D.format = CU_AD_FORMAT_UNSIGNED_INT8;
	resource.res.pitch2D.numChannels = 4;
	resource.res.pitch2D.width = 50;
	resource.res.pitch2D.height = 10;
	resource.res.pitch2D.pitchInBytes = 512;
	check_texture(&resource, &texture);
	memset(&resource, 0, sizeof(resource));
	resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
	resource.res.mipmap.hMipmappedArray = mipmap;
	texture.addressMode[1] = CU_TR_ADDRESS_MODE_MIRROR;
	texture.maxAnisotropy = 1;
	texture.mipmapFilterMode = CU_TR_FILTER_MODE_LINEAR;
	texture.mipmapLevelBias = 0.5f;
	texture.minMipmapLevelClamp = 1;
	texture.maxMipmapLevelClamp = 2;
	check_texture(&resource, &texture);
	CHECK(cuMipmappedArrayDestroy(mipmap));
	CHECK(cuArrayDestroy(array));
}

/* Makes a texture that shows a part of its array, and reads the view. */
static void check_view(const CUDA_RESOURCE_DESC *resource, const CUDA_RESOURCE_VIEW_DESC *view)
{
	CUDA_RESOURCE_VIEW_DESC got;
	CUDA_TEXTURE_DESC texture;
	CUtexObject object;

	memset(&texture, 0, sizeof(texture));
	memset(&got, 0xee, sizeof(got));
	texture.flags = CU_TRSF_READ_AS_INTEGER;
	CHECK(cuTexObjectCreate(&object, resource, &texture, view));
	CHECK(cuTexObjectGetResourceViewDesc(&got, object));
	MUST(got.format == view->format && got.width == view->width);
	MUST(got.height == view->height && got.depth == view->depth);
	MUST(got.firstMipmapLevel == view->firstMipmapLevel);
	MUST(got.lastMipmapLevel == view->lastMipmapLevel);
	MUST(got.firstLayer == view->firstLayer && got.lastLayer == view->lastLayer);
	CHECK(cuTexObjectDestroy(object));
}

static void views(void)
{
	static const CUDA_ARRAY3D_DESCRIPTOR flat = {64, 32, 0, CU_AD_FORMAT_FLOAT, 1, 0};
	static const CUDA_ARRAY3D_DESCRIPTOR layered = {
		64, 32, 5, CU_AD_FORMAT_UNSIGNED_INT8, 4, CUDA_ARRAY3D_LAYERED};
	CUDA_RESOURCE_VIEW_DESC view;
	CUDA_RESOURCE_DESC resource;
	CUmipmappedArray mipmap;
	CUarray array;

	memset(&resource, 0, sizeof(resource));
	memset(&view, 0, sizeof(view));
	view.width = flat.Width;
	view.height = flat.Height;
	resource.resType = CU_RESOURCE_TYPE_ARRAY;
	CHECK(cuArray3DCreate(&array, &flat));
	resource.res.array.hArray = array;
	view.format = CU_RES_VIEW_FORMAT_FLOAT_1X32;
	check_view(&resource, &view);
	view.format = CU_RES_VIEW_FORMAT_SINT_2X16;
	check_view(&resource, &view);
	CHECK(cuArrayDestroy(array));
	CHECK(cuArray3DCreate(&array, &layered));
	resource.res.array.hArray = array;
	view.depth = layered.Depth;
	view.format = CU_RES_VIEW_FORMAT_UINT_1X32;
	view.firstLayer = 1;
	view.lastLayer = 3;
	check_view(&resource, &view);
	CHECK(cuArrayDestroy(array));
	CHECK(cuMipmappedArrayCreate(&mipmap, &flat, 4));
	memset(&resource, 0, sizeof(resource));
	resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
	resource.res.mipmap.hMipmappedArray = mipmap;
	view.depth = 0;
	view.firstLayer = view.lastLayer = 0;
	view.firstMipmapLevel = 1;
	view.lastMipmapLevel = 2;
	check_view(&resource, &view);
	CHECK(cuMipmappedArrayDestroy(mipmap));
}

static void surfaces(void)
{
	const CUDA_ARRAY3D_DESCRIPTOR flat = {
		64, 32, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST};
	CUDA_RESOURCE_DESC resource, got;
	CUsurfObject object;
	CUarray array;

	memset(&resource, 0, sizeof(resource));
	memset(&got, 0xff, sizeof(got));
	CHECK(cuArray3DCreate(&array, &flat));
	resource.resType = CU_RESOURCE_TYPE_ARRAY;
	resource.res.array.hArray = array;
	CHECK(cuSurfObjectCreate(&object, &resource));
	CHECK(cuSurfObjectGetResourceDesc(&got, object));
	MUST(got.resType == CU_RESOURCE_TYPE_ARRAY && got.flags == 0);
	MUST(got.res.array.hArray == array);
	CHECK(cuSurfObjectDestroy(object));
	CHECK(cuArrayDestroy(array));
}

int main(void)
{
	setup();
	arrays();
	levels();
	textures();
	views();
	surfaces();
	CHECK(cuMemFree(memory));
	CHECK(cuDevicePrimaryCtxRelease(0));
	printf(NAME ": ok\n");
	return 0;
}
