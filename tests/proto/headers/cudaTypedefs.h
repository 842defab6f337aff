/* SPDX-License-Identifier: Apache-2.0 */
typedef CUresult(CUDAAPI *PFN_cuInit_v2000)(unsigned int Flags);
typedef CUresult(CUDAAPI *PFN_cuThingCreate_v2000)(CUthing *pThing, const char *name, size_t bytes);
typedef CUresult(CUDAAPI *PFN_cuThingCreate_v4000)(CUthing *pThing, const char *name, size_t bytes);
typedef CUresult(CUDAAPI *PFN_cuThingCopy_v3020)(
	CUdeviceptr dst, const void *src, CUbox box, float scale);
typedef CUresult(CUDAAPI *PFN_cuThingCopy_v7000_ptds)(
	CUdeviceptr dst, const void *src, CUbox box, float scale);
typedef CUresult(CUDAAPI *PFN_cuThingRun_v9000)(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream);
typedef CUresult(CUDAAPI *PFN_cuThingRun_v9000_ptsz)(
	CUthing thing, CUkind kind, CUthingFn fn, void **args, CUstream hStream);
typedef CUresult(CUDAAPI *PFN_cuThingName_v2000)(char *name, int len, CUthing thing);
typedef CUresult(CUDAAPI *PFN_cuThingAbsent_v2000)(void);
