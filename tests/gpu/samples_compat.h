/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SAMPLES_COMPAT_H
#define SAMPLES_COMPAT_H

/*
 * What CUDA 13 removed from CUDA 12, for NVIDIA's samples of 12.4 (tests/gpu/samples).
 *
 * Included with nvcc's -include before everything else of a program; it has no effect on C programs
 * and older toolkits. Calls whose parameters have changed are overloaded with the old parameters.
 */

#ifdef __cplusplus

#include <cuda.h>
#include <cuda_runtime.h>

#if CUDART_VERSION >= 13000

/* Properties with the removed members, which still exist as attributes. */
struct compat_device_prop : cudaDeviceProp {
	int clockRate;
	int memoryClockRate;
	int computeMode;
	int deviceOverlap;
	int kernelExecTimeoutEnabled;
	int singleToDoublePrecisionPerfRatio;
	int cooperativeMultiDeviceLaunch;
};

static inline cudaError_t cudaGetDeviceProperties(compat_device_prop *prop, int device)
{
	cudaError_t r = cudaGetDeviceProperties(static_cast<cudaDeviceProp *>(prop), device);

	if (r != cudaSuccess)
		return r;
	cudaDeviceGetAttribute(&prop->clockRate, cudaDevAttrClockRate, device);
	cudaDeviceGetAttribute(&prop->memoryClockRate, cudaDevAttrMemoryClockRate, device);
	cudaDeviceGetAttribute(&prop->computeMode, cudaDevAttrComputeMode, device);
	cudaDeviceGetAttribute(&prop->deviceOverlap, cudaDevAttrGpuOverlap, device);
	cudaDeviceGetAttribute(
		&prop->kernelExecTimeoutEnabled, cudaDevAttrKernelExecTimeout, device);
	cudaDeviceGetAttribute(&prop->singleToDoublePrecisionPerfRatio,
		cudaDevAttrSingleToDoublePrecisionPerfRatio, device);
	prop->cooperativeMultiDeviceLaunch = 0;
	return cudaSuccess;
}

#define cudaDeviceProp compat_device_prop
#define cudaThreadSynchronize cudaDeviceSynchronize
#define cudaDeviceBlockingSync cudaDeviceScheduleBlockingSync

/* Results of cuFFT that the samples' table of texts still has. */
#define CUFFT_INCOMPLETE_PARAMETER_LIST static_cast<cufftResult>(0xa)
#define CUFFT_PARSE_ERROR static_cast<cufftResult>(0xc)
#define CUFFT_LICENSE_ERROR static_cast<cufftResult>(0xf)

/* A location was the number of a device, or negative for the host. */
static inline cudaMemLocation compat_location(int device)
{
	cudaMemLocation location = {};

	location.type = device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
	location.id = device < 0 ? 0 : device;
	return location;
}

static inline cudaError_t cudaMemPrefetchAsync(
	const void *ptr, size_t size, int device, cudaStream_t stream = nullptr)
{
	return cudaMemPrefetchAsync(ptr, size, compat_location(device), 0, stream);
}

static inline cudaError_t cudaMemAdvise(
	const void *ptr, size_t size, cudaMemoryAdvise advice, int device)
{
	return cudaMemAdvise(ptr, size, advice, compat_location(device));
}

/* Edges of graphs had no data. */
static inline cudaError_t cudaGraphAddDependencies(
	cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to, size_t n)
{
	return cudaGraphAddDependencies(graph, from, to, nullptr, n);
}

static inline cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph,
	const cudaGraphNode_t *after, size_t n, cudaGraphNodeParams *params)
{
	return cudaGraphAddNode(node, graph, after, nullptr, n, params);
}

static inline cudaError_t cudaStreamUpdateCaptureDependencies(
	cudaStream_t stream, cudaGraphNode_t *after, size_t n, unsigned flags)
{
	return cudaStreamUpdateCaptureDependencies(stream, after, nullptr, n, flags);
}

static inline cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
	cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
	const cudaGraphNode_t **after, size_t *n)
{
	return cudaStreamGetCaptureInfo(stream, status, id, graph, after, nullptr, n);
}

static inline cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
	cudaStreamCaptureStatus *status, unsigned long long *id = nullptr,
	cudaGraph_t *graph = nullptr, const cudaGraphNode_t **after = nullptr, size_t *n = nullptr)
{
	return cudaStreamGetCaptureInfo(stream, status, id, graph, after, nullptr, n);
}

static inline CUresult cuCtxCreate(CUcontext *context, unsigned flags, CUdevice device)
{
	return cuCtxCreate(context, nullptr, flags, device);
}

/* Function objects that are part of C++ now. */
namespace thrust
{
template <class A, class R> struct unary_function {
	typedef A argument_type;
	typedef R result_type;
};

template <class A, class B, class R> struct binary_function {
	typedef A first_argument_type;
	typedef B second_argument_type;
	typedef R result_type;
};

#ifdef __CUDACC__
template <class T> struct identity {
	__host__ __device__ const T &operator()(const T &value) const
	{
		return value;
	}
};
#endif
} // namespace thrust

#endif
#endif
#endif
