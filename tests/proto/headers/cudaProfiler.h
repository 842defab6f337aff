/* SPDX-License-Identifier: Apache-2.0 */
/**
 * \defgroup SMALL_PROFILER Profiling
 */
CUresult CUDAAPI cuProfilerStart(void);
