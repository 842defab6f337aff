/* SPDX-License-Identifier: Apache-2.0 */

#ifndef BOUNDS_H
#define BOUNDS_H

/*
 * Every limit that two programs share, each with its reason.
 */

/* The control socket's directory when CUDA_MPS_PIPE_DIRECTORY is not set: the vendor's default. */
#define PIPE_DIRECTORY_DEFAULT "/tmp/nvidia-mps"
#define LOG_DIRECTORY_DEFAULT "/var/log/nvidia-mps"

/* Where the NVIDIA kernel driver tells of faults. (MPS_KERNEL_LOG) */
#define KERNEL_LOG_DEFAULT "/dev/kmsg"

/* sun_path holds 108 bytes with its NUL. */
#define SOCKET_PATH_MAX 107

/* A connection without a complete HELLO or command line is closed after this. */
#define INTRODUCTION_MS 5000

/* Connections of one UID that have not been introduced yet: front ends that start at once. */
#define STRANGERS_MAX 256

/* A client waits this long for its server: a cold one starts in about a second. */
#define WELCOME_MS 60000

/* Restarts of one UID's server before its clients are told 805. */
#define RESTARTS_MAX 5
#define RESTARTS_WINDOW_MS 10000

/* A server without a daemon looks for a new one this often, and ends this long after its last
 * client. */
#define DAEMON_RETRY_MS 1000
#define ORPHAN_LINGER_MS 10000

/* A dead client's kernels may run this long before they cost the server (MPS_GRACE_MS). */
#define GRACE_MS_DEFAULT 10000

/* A client that comes meanwhile waits as long, then is welcomed all the same; and is told of. */
#define NEWCOMER_WAIT_MS 20000
#define NEWCOMER_LOG_MS 200

/*
 * Fatbins of an image that nvcc has linked, itself among them: one for each of a program's files.
 * They lie one after the other, each at such a multiple.
 */
#define IMAGE_PARTS_MAX 16384
#define IMAGE_PART_ALIGN 8

/* Sessions of one server. Bounds tables and threads, not users: nobody has met it. */
#define SESSIONS_MAX 1024

/*
 * What clients may raise the device-wide limits of a GPU to: its memory is lost to everybody
 * while a client asks for it. The stack of a thread is bounded by the driver.
 */
#define PRINTF_BUFFER_MAX ((uint64_t)64 << 20)
#define DEVICE_HEAP_MAX ((uint64_t)1 << 30)

/* Groups that one daemon keeps limits of, and one server: an entry is 4 KiB. */
#define GROUPS_MAX 256

/* Devices of one server; cudart and NVML know no machine with more. */
#define DEVICES_MAX 64

#endif
