/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTITIONS_H
#define PARTITIONS_H

/*
 * Static partitions of SMs, for a daemon with -S. A partition is a set of the
 * chunks into which the driver divides a GPU; no two partitions share a chunk.
 * A client names its partition as "UUID/ID" (CUDA_MPS_SM_PARTITION). Loop
 * thread.
 */

#include "daemon/text/list.h"
#include "daemon/config/devices.h"

/* Base64 of a set of 64 chunks, without padding, and NUL. */
#define PARTITION_ID_MAX 12

/* "UUID/ID" */
#define PARTITION_NAME_MAX (DEVICE_UUID_TEXT + PARTITION_ID_MAX)

struct partition {
	struct list link; /* in the daemon's partitions */
	uint8_t uuid[16]; /* of its GPU */
	uint64_t chunks;  /* of the GPU, one bit each */
	char id[PARTITION_ID_MAX];
	bool is_of_earlier_daemon;
};

/* The number of chunks in a set. */
static inline unsigned chunks_count(uint64_t chunks)
{
	return (unsigned)__builtin_popcountll(chunks);
}

bool partition_is_of(const struct partition *partition, const struct frame_device *device);

/* The chunks of the GPU that belong to partitions. */
uint64_t partitions_used(const struct list *partitions, const struct frame_device *device);

/* 0, -ENOSPC (the GPU has fewer free chunks) or -ENOMEM. */
int partitions_add(struct list *partitions, const struct frame_device *device, unsigned n_chunks,
	struct partition **ret_partition);

/* Adds a partition of an earlier daemon. 0, -EINVAL (it overlaps another one) or -ENOMEM. */
int partitions_restore(struct list *partitions, const uint8_t uuid[16], uint64_t chunks);

/* NULL if there is none. */
struct partition *partitions_find(
	const struct list *partitions, const struct frame_device *device, const char *id);

void partition_free(struct partition *partition);
void partitions_free(struct list *partitions);

void partition_name(const struct partition *partition, const struct frame_device *device,
	char name[PARTITION_NAME_MAX]);

/*
 * Sets the limits of a client that names partitions, separated by commas: one
 * for each GPU. A partition that does not exist gives the client nothing.
 */
void partitions_limit(const struct list *partitions, const struct devices *devices,
	const char *names, struct frame_limits *limits);

#endif
