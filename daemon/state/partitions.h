/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTITIONS_H
#define PARTITIONS_H

/*
 * Static partitions of SMs. A partition is a set of the chunks into which the driver divides a GPU.
 * One of protocol 2 (a daemon with -S) is for the clients of all servers; one of protocol 3 has a
 * name, and is for the clients of one server. No two partitions that one server may use share a
 * chunk. A client names its partition as "UUID/ID" (CUDA_MPS_SM_PARTITION), or its namespace is
 * bound to one. Loop thread.
 */

#include "server_name.h"
#include "daemon/text/list.h"
#include "daemon/config/devices.h"

struct slot;

/* Base64 of a set of 64 chunks, without padding, and NUL. */
#define PARTITION_ID_MAX 12

/* "UUID/ID" */
#define PARTITION_NAME_MAX (DEVICE_UUID_TEXT + PARTITION_ID_MAX)

struct partition {
	struct list link; /* in the daemon's partitions */
	uint8_t uuid[16]; /* of its GPU */
	uint64_t chunks;  /* of the GPU, one bit each; behind them, a bit of the remaining SMs */
	char id[PARTITION_ID_MAX];
	bool is_of_earlier_daemon;

	/* Of protocol 3: */
	struct slot *slot; /* whose server it is of; NULL: of all servers */
	char name[SERVER_NAME_MAX];
	unsigned max_chunks;  /* that a client gets of it and of free ones; 0: none of those */
	bool is_shareable;    /* also by namespaces that are not bound to it */
	struct list bindings; /* of namespaces: struct binding */
};

/* A namespace whose clients have the partition, whatever they name. */
struct binding {
	struct list link;
	uint32_t group; /* the id of the namespace's group */
};

/* What a new partition has to be. */
struct partition_wish {
	struct slot *slot;
	const char *name; /* "": of protocol 2 */
	unsigned n_chunks, max_chunks;
	bool has_remainder, is_shareable;
	uint64_t lent; /* chunks that are in no partition, and that clients have nevertheless */
};

/* The number of chunks in a set. */
static inline unsigned chunks_count(uint64_t chunks)
{
	return (unsigned)__builtin_popcountll(chunks);
}

/* All chunks of a GPU; the bit of the SMs that are in no chunk, or 0. */
uint64_t chunks_of(const struct frame_device *device);
uint64_t chunks_remainder(const struct frame_device *device);

/* The SMs of a set. */
unsigned chunks_sms(uint64_t chunks, const struct frame_device *device);

/* As many as there are of the first chunks of the set, at most `n'. */
uint64_t chunks_first(uint64_t chunks, unsigned n);

bool partition_is_of(const struct partition *partition, const struct frame_device *device);

/* Whether clients of the slot's server may have it, as far as it is not bound. */
bool partition_serves(const struct partition *partition, const struct slot *slot);

/* The chunks of the GPU that are in partitions which the slot's server may use; NULL: in any. */
uint64_t partitions_used(
	const struct list *partitions, const struct frame_device *device, const struct slot *slot);

/*
 * 0, -ENOSPC (the GPU has fewer free chunks), -EBUSY (the remaining SMs are in another partition,
 * or there are none) or -ENOMEM.
 */
int partitions_add(struct list *partitions, const struct frame_device *device,
	const struct partition_wish *wish, struct partition **ret_partition);

/*
 * Adds a partition of an earlier daemon. 0, -EINVAL (it overlaps another one, or has the name of
 * one) or -ENOMEM.
 */
int partitions_restore(struct list *partitions, const uint8_t uuid[16], uint64_t chunks,
	const struct partition_wish *wish, struct partition **ret_partition);

/* The one of that ID which the slot's server may use; NULL: one of protocol 2. */
struct partition *partitions_find(const struct list *partitions, const struct frame_device *device,
	const char *id, const struct slot *slot);

/* The one of that name. */
struct partition *partitions_find_named(const struct list *partitions,
	const struct frame_device *device, const char *name, const struct slot *slot);

/* The one that the namespace is bound to. */
struct partition *partitions_find_bound(
	const struct list *partitions, const struct frame_device *device, uint32_t group);

/* 0 or -ENOMEM. */
int partition_bind(struct partition *partition, uint32_t group);
void partition_unbind(struct partition *partition, uint32_t group);
bool partition_is_bound(const struct partition *partition, uint32_t group);

void partition_free(struct partition *partition);
void partitions_free(struct list *partitions);

/* The namespace, or the slot ends. */
void partitions_forget_group(struct list *partitions, uint32_t group);
void partitions_forget_slot(struct list *partitions, const struct slot *slot);

void partition_name(const struct partition *partition, const struct frame_device *device,
	char name[PARTITION_NAME_MAX]);

#endif
