/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SOFTGPU_H
#define SOFTGPU_H

#include <stdint.h>

/*
 * The software GPU for its users: a libcuda.so.1 whose device is this process. It
 * exports every name of the driver API and nothing else; a function that it does not
 * serve returns CUDA_ERROR_NOT_SUPPORTED. The environment controls it. cuInit() reads each
 * variable once, unless stated otherwise; the first call reads the fail switch.
 *
 * SOFTGPU_DEVICES=N           number of devices, 0 to 16 (default 1; 0: cuInit says NO_DEVICE)
 * SOFTGPU_MEMORY_MIB=N        memory of each device (default 1024)
 * SOFTGPU_CARD=FILE           the memory of the devices for all processes that name FILE, which is
 *                             made if it is missing: what one process has, or a descriptor
 *                             holds, is not free for the others. It needs locks of open file
 *                             descriptions; /proc/PID/fd/N of a memfd serves, and leaves nothing
 *                             (default: each process has a memory of its own)
 * SOFTGPU_CARD_LATE_MS=N      what a process has of that memory without a descriptor is free N ms
 *                             after its end (default: at its end)
 * SOFTGPU_SMS=N               SMs of each device, 1 to 256 (default 132)
 * SOFTGPU_COMPUTE_MODE=LIST   0 or default, 2 or prohibited, 3 or exclusive, for one device
 *                             in order ("3,0"); the last holds for all further devices.
 *                             Prohibited refuses contexts with DEVICE_UNAVAILABLE; exclusive
 *                             does so while another process has a context on the device
 * SOFTGPU_COMPUTE_MODE_FILE=F a file with such a list, which is read each time; while it is
 *                             empty or missing, SOFTGPU_COMPUTE_MODE holds
 * SOFTGPU_DIR=DIR             the folder of softgpu-N.lock, by which processes see each other's
 *                             contexts (default: /tmp, only for exclusive mode). A process that
 *                             cannot create the file must find it there
 * SOFTGPU_KERNEL_LOG=FILE     gets a record of /dev/kmsg for each kernel's illegal address, in
 *                             the format of the NVIDIA kernel driver's Xid 31
 * SOFTGPU_DRIVER_VERSION=N    the result of cuDriverGetVersion() (default 13000)
 * SOFTGPU_FAIL=LIST           "cuMemCreate:3=2,*:7=719": the 3rd call of cuMemCreate fails with
 *                             CUresult 2, the 7th call of any function with 719. Names are
 *                             without _v2, _ptsz and the like. A failing call has no effect.
 *                             719 and the other faults (700, 710, 714 to 719) stay.
 * SOFTGPU_SWITCH=FILE         a struct softgpu_switch that tests change while programs run
 * SOFTGPU_STATS=FILE          has one line of text for each SOFTGPU_STAT below, always current:
 *                             name, a space, 16 digits; %p in FILE is the process ID
 * SOFTGPU_LAUNCH_US=N         each kernel takes N us longer
 * SOFTGPU_LOOPS_ALONE=1       a loop of a graph ends its context beside a kernel of another stream,
 *                             too, as by driver 580 (default: only beside another loop)
 * SOFTGPU_TURNS=1             kernels of different processes never run at the same time, as on a
 *                             GPU without MPS; the processes have one SOFTGPU_DIR
 * SOFTGPU_COPY_US=N           each copy and each fill takes N us longer
 * SOFTGPU_UNPIN_US=N          each cuMemHostUnregister() takes N us longer
 * CUDA_VISIBLE_DEVICES        as the driver's: ordinals or GPU-uuid prefixes, up to the first
 *                             unknown one
 *
 * Not implemented, and therefore refused: sparse arrays, IPC of pools, events of green contexts,
 * external memory. Peer access always works.
 *
 * An image is translated when it is loaded, which reports errors on stderr. A library returns them
 * at its first use, as in the driver. A reset or destroyed context drops the queued work of its
 * streams; the driver waits for that work instead, even for ever.
 *
 * It shares code with the client library in four places, and each says why that hides no fault of
 * the client library: export.c (private tables, storage of contexts), errors.c, managed.c and
 * procs.c.
 *
 * Device memory is this process's memory, at the same address. Accesses of kernels and copies are
 * checked first. If the memory is unmapped nevertheless, a handler for SIGSEGV and SIGBUS, which
 * acts on the streams' threads only, turns the access into the fault that a GPU would report.
 */

/*
 * The nth driver call since `seen' was 0 fails, ends this process, or takes longer. All servers
 * with the file count together. Calls that free never fail.
 */
struct softgpu_switch {
	uint64_t nth; /* 0: none */
	uint64_t seen;
	uint32_t what;
	uint32_t arg;  /* a CUresult, or milliseconds */
	char name[64]; /* the name of that call */
	char only[64]; /* only calls of this function count; "": all */
};

enum softgpu_switch_what {
	SOFTGPU_SWITCH_RESULT,
	SOFTGPU_SWITCH_KILL,
	SOFTGPU_SWITCH_STALL,
	SOFTGPU_SWITCH_WAIT /* waits for all work on the GPU, while no other thread can call the
			       driver */
};

/* Live objects, by kind. All but the last two are zero again after a program's cleanup. */
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
