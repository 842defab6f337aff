/* SPDX-License-Identifier: Apache-2.0 */

#ifndef BOUNDS_H
#define BOUNDS_H

/*
 * Every limit that two programs share, with its reason.
 */

/* The control socket's directory without CUDA_MPS_PIPE_DIRECTORY: the vendor's default. */
#define PIPE_DIRECTORY_DEFAULT "/tmp/nvidia-mps"
#define LOG_DIRECTORY_DEFAULT "/var/log/nvidia-mps"

/* Where the NVIDIA kernel driver reports faults. (MPS_KERNEL_LOG) */
#define KERNEL_LOG_DEFAULT "/dev/kmsg"
#define KERNEL_LOG_NONE "none"

/* Where cgroups of version 2 are mounted. (MPS_CGROUP_ROOT) */
#define CGROUP_ROOT_DEFAULT "/sys/fs/cgroup"

/* sun_path holds 108 bytes with its NUL. */
#define SOCKET_PATH_MAX 107

/* The daemon closes a connection without a complete HELLO or command line after this time. */
#define INTRODUCTION_MS 5000

/* Connections of one account before their handshake: enough for front ends that start together. */
#define STRANGERS_MAX 256

/* A client waits this long for its server; a new server needs about a second. */
#define WELCOME_MS 60000

/* Restarts of one UID's server before its clients get error 805. */
#define RESTARTS_MAX 5
#define RESTARTS_WINDOW_MS 10000
/* Between the first restart and the second; each further pause is twice as long. */
#define RESTART_PAUSE_MS 200

/* Without a daemon, a server looks for a new daemon at this interval, and ends this long after its
 * last client. */
#define DAEMON_RETRY_MS 1000
#define ORPHAN_LINGER_MS 10000

/* After a GPU fault, clients that survive wait this long for the next server. */
#define RESCUE_MS 10000

/* Two faults of a program within this time are too many beside others; and its probation. */
#define FAULT_MEMORY_MS 60000u
#define PROBATION_MS 600000u

/* How much slower a foreground client may be beside background ones (MPS_FOREGROUND_SLOWDOWN). */
#define FOREGROUND_SLOWDOWN_MIN 1u
#define FOREGROUND_SLOWDOWN_DEFAULT 5u
#define FOREGROUND_SLOWDOWN_MAX 1000u

/* The part of a GPU that background clients always have (MPS_BACKGROUND_FLOOR). */
#define BACKGROUND_FLOOR_MIN 1u
#define BACKGROUND_FLOOR_DEFAULT 10u
#define BACKGROUND_FLOOR_MAX 100u

/*
 * Clients whose memory does not fit together take turns: how many seconds each stays at least
 * (MPS_OVERSUBSCRIBE_STAY).
 */
#define OVERSUBSCRIBE_STAY_DEFAULT 5u
#define OVERSUBSCRIBE_STAY_MAX 3600u

/* A dead client's kernels may run this long; then the server ends (MPS_GRACE_MS). */
#define GRACE_MS_DEFAULT 10000

/* A client that connects meanwhile waits at most this long; after NEWCOMER_TOLD_MS it is logged. */
#define NEWCOMER_WAIT_MS 20000
#define NEWCOMER_LOG_MS 200

/*
 * Fatbins in an image that nvcc has linked: one for each of the program's files. They follow each
 * other; each begins at a multiple of the alignment.
 */
#define IMAGE_PARTS_MAX 16384
#define IMAGE_PART_ALIGN 8

/* Sessions of one server. This bounds tables and threads; no known use reaches it. */
#define SESSIONS_MAX 1024

/*
 * Upper bounds for the device-wide limits that a client may raise. All clients lose this memory
 * while one of them requests it. The driver bounds the stack of a thread.
 */
#define PRINTF_BUFFER_MAX ((uint64_t)64 << 20)
#define DEVICE_HEAP_MAX ((uint64_t)1 << 30)

/* Groups with limits of one daemon; a server has an entry of 4 KiB for each, and each cgroup. */
#define GROUPS_MAX 256

/* Cgroups with limits of memory, of one daemon; and how many of them enclose a client at most. */
#define CGROUPS_MAX 256
#define CGROUP_LEVELS_MAX 4

/* Devices of one server; cudart and NVML support no more. */
#define DEVICES_MAX 64

#endif
