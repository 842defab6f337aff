/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDA_INTEROP_H
#define CUDA_INTEROP_H

/*
 * Types of GL, EGL and VDPAU in the driver's calls. Their headers need not be
 * installed: this project never reads such values, so their size and class are
 * enough.
 */

#include <cuda.h>

typedef unsigned int GLuint;
typedef unsigned int GLenum;
typedef unsigned int CUGLDeviceList;

typedef int EGLint;
typedef void *EGLImageKHR;
typedef void *EGLStreamKHR;
typedef struct CUeglStreamConnection_st *CUeglStreamConnection;

/* Three planes and nine numbers; passed by value, therefore in memory. */
typedef struct {
	void *planes[3];
	unsigned int numbers[9];
} CUeglFrame;

typedef uint32_t VdpDevice;
typedef uint32_t VdpVideoSurface;
typedef uint32_t VdpOutputSurface;
typedef uint32_t VdpGetProcAddress(VdpDevice device, uint32_t function, void **ret_pointer);

#endif
