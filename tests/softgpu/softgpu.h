/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SOFTGPU_H
#define SOFTGPU_H

#include <stdint.h>

/*
 * The software GPU as its users see it: a libcuda.so.1 whose device is this
 * process. Nothing but the driver API is exported; the environment, read once
 * at cuInit() unless said otherwise (the fail switch at the first call),
 * decides the rest.
 *
 * SOFTGPU_DEVICES=N           number of devices, 0 to 16 (default 1; 0: cuInit says NO_DEVICE)
 * SOFTGPU_MEMORY_MIB=N        memory of each device (default 1024)
 * SOFTGPU_SMS=N               SMs of each device, 1 to 256 (default 132)
 * SOFTGPU_COMPUTE_MODE=LIST   0 or default, 2 or prohibited, 3 or exclusive, for one device
 *                             after the other ("3,0"), the last for all further ones. Prohibited
 *                             refuses contexts with DEVICE_UNAVAILABLE, exclusive does while
 *                             another process has one on the device
 * SOFTGPU_COMPUTE_MODE_FILE=F a file with such a list, which then is read each time; while it is
 *                             empty or missing, SOFTGPU_COMPUTE_MODE holds
 * SOFTGPU_DIR=DIR             where softgpu-N.lock lies, by which processes see each other's
 *                             contexts (default /tmp, then for exclusive mode alone). Who cannot
 *                             make the file has to find it there
 * SOFTGPU_KERNEL_LOG=FILE     gets a record of /dev/kmsg for each kernel's illegal address, in
 *                             the shape of the NVIDIA kernel driver's Xid 31
 * SOFTGPU_DRIVER_VERSION=N    what cuDriverGetVersion() says (default 13000)
 * SOFTGPU_FAIL=LIST           "cuMemCreate:3=2,*:7=719": the 3rd call of cuMemCreate fails with
 *                             CUresult 2, the 7th driver call, whatever it is, with 719. Names
 *                             are without _v2, _ptsz and the like. A failing call does nothing.
 *                             719 and the other faults (700, 710, 714 to 719) stay.
 * SOFTGPU_SWITCH=FILE         a struct softgpu_switch that tests change while programs run
 * SOFTGPU_STATS=FILE          kept current with one line of text for each SOFTGPU_STAT below:
 *                             name, a space, 16 digits; %p in FILE is the process id
 * SOFTGPU_LAUNCH_US=N         each kernel takes N us longer
 * SOFTGPU_COPY_US=N           each copy and each fill takes N us longer
 * CUDA_VISIBLE_DEVICES        as the driver's: ordinals or GPU-uuid prefixes, up to the first
 *                             that is not there
 *
 * Not modelled, and refused rather than done wrong: sparse arrays, IPC, events of green
 * contexts, external memory. Peer access always works.
 *
 * An image is translated when it is loaded, and stderr says then what is wrong with it; a
 * library tells its caller at the first use, as the driver does. A reset or destroyed context drops
 * what its streams still had to do, where the driver waits for it, for ever if need be.
 *
 * It shares code with the client library in three places, and each says why that hides no fault of
 * the client library: export.c (private tables, storage of contexts), errors.c and managed.c.
 *
 * Device memory is this process's memory, at the same address. What a kernel or a copy
 * may touch is checked before; what is unmapped under it all the same ends as the fault it
 * is on a GPU, by a SIGSEGV and SIGBUS handler that acts on the streams' threads alone.
 */

/*
 * The nth driver call from when `seen' was 0 fails, or ends this process, or takes longer.
 * Counted over all servers that have the file. Calls that give back never fail by it.
 */
struct softgpu_switch {
	uint64_t nth; /* 0: none */
	uint64_t seen;
	uint32_t what;
	uint32_t arg;  /* a CUresult, or milliseconds */
	char name[64]; /* which call it was */
};

enum softgpu_switch_what {
	SOFTGPU_SWITCH_RESULT,
	SOFTGPU_SWITCH_KILL,
	SOFTGPU_SWITCH_STALL,
	SOFTGPU_SWITCH_WAIT /* for all that is on the GPU, while nobody else can call the driver */
};

/* Live objects, by kind. All but the last two are zero again when a program has cleaned up. */
#define SOFTGPU_STATS_LIST(X)                                                                      \
	X(CONTEXTS, contexts)                                                                      \
	X(STREAMS, streams)                                                                        \
	X(EVENTS, events)                                                                          \
	X(LIBRARIES, libraries)                                                                    \
	X(LINKERS, linkers)                                                                        \
	X(MODULES, modules)                                                                        \
	X(RESERVATIONS, reservations)                                                              \
	X(RESERVED_BYTES, reserved_bytes)                                                          \
	X(ALLOCATIONS, allocations)                                                                \
	X(DEVICE_BYTES, device_bytes)                                                              \
	X(MAPPINGS, mappings)                                                                      \
	X(MAPPED_BYTES, mapped_bytes)                                                              \
	X(HOST_ALLOCATIONS, host_allocations)                                                      \
	X(REGISTRATIONS, registrations)                                                            \
	X(ARRAYS, arrays)                                                                          \
	X(TEXTURES, textures)                                                                      \
	X(POOLS, pools)                                                                            \
	X(GREENS, greens)                                                                          \
	X(GRAPHS, graphs)                                                                          \
	X(GRAPH_EXECS, graph_execs)                                                                \
	X(THREADS, threads)                                                                        \
	X(LAUNCHES, launches)                                                                      \
	X(FAULTS, faults)

#endif
