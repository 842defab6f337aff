/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Static partitions of SMs. Loop thread.
 *
 * Invariant: no chunk of a GPU is in two partitions.
 */

#include "partitions.h"

#include <stdio.h>
#include <string.h>

bool partition_is_of(const struct partition *partition, const struct frame_device *device)
{
	return memcmp(partition->uuid, device->uuid, sizeof(partition->uuid)) == 0;
}

uint64_t partitions_used(const struct list *partitions, const struct frame_device *device)
{
	uint64_t used = 0;

	list_each (const struct partition, partition, partitions, link)
		if (partition_is_of(partition, device))
			used |= partition->chunks;
	return used;
}

/* Chooses the first free chunks; 0: too few are free. */
static uint64_t choose_chunks(uint64_t used, unsigned n_chunks, unsigned n_wanted)
{
	uint64_t chosen = 0;

	for (unsigned i = 0; i < n_chunks && n_wanted > 0; i++)
		if (!(used >> i & 1)) {
			chosen |= (uint64_t)1 << i;
			n_wanted--;
		}
	return n_wanted == 0 ? chosen : 0;
}

/* An ID is base64, as the vendor's: here of the set of chunks, lowest byte first. */
static void make_partition_id(uint64_t chunks, char id[PARTITION_ID_MAX])
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned n_bits = 8 * ((64 - (unsigned)__builtin_clzll(chunks) + 7) / 8);
	uint64_t bits = htole64(chunks);
	const uint8_t *bytes = (const uint8_t *)&bits;
	unsigned n = 0;

	for (unsigned at = 0; at < n_bits; at += 6) {
		unsigned pair = (unsigned)bytes[at / 8] << 8;

		if (at / 8 + 1 < n_bits / 8)
			pair |= bytes[at / 8 + 1];
		id[n++] = digits[pair >> (10 - at % 8) & 63];
	}
	id[n] = '\0';
}

static struct partition *add_chunks(
	struct list *partitions, const uint8_t uuid[16], uint64_t chunks)
{
	struct partition *partition = calloc(1, sizeof(*partition));

	if (!partition)
		return NULL;
	memcpy(partition->uuid, uuid, sizeof(partition->uuid));
	partition->chunks = chunks;
	make_partition_id(chunks, partition->id);
	list_add_tail(partitions, &partition->link);
	return partition;
}

int partitions_add(struct list *partitions, const struct frame_device *device, unsigned n_chunks,
	struct partition **ret_partition)
{
	uint64_t chunks =
		choose_chunks(partitions_used(partitions, device), device->n_chunks, n_chunks);

	if (!chunks)
		return -ENOSPC;
	*ret_partition = add_chunks(partitions, device->uuid, chunks);
	return *ret_partition ? 0 : -ENOMEM;
}

int partitions_restore(struct list *partitions, const uint8_t uuid[16], uint64_t chunks)
{
	struct frame_device device = {0};
	struct partition *partition;

	memcpy(device.uuid, uuid, sizeof(device.uuid));
	if (!chunks || (partitions_used(partitions, &device) & chunks))
		return -EINVAL;
	partition = add_chunks(partitions, uuid, chunks);
	if (!partition)
		return -ENOMEM;
	partition->is_of_earlier_daemon = true;
	return 0;
}

struct partition *partitions_find(
	const struct list *partitions, const struct frame_device *device, const char *id)
{
	list_each (struct partition, partition, partitions, link)
		if (partition_is_of(partition, device) && strcmp(partition->id, id) == 0)
			return partition;
	return NULL;
}

void partition_free(struct partition *partition)
{
	list_remove(&partition->link);
	free(partition);
}

void partitions_free(struct list *partitions)
{
	list_each_safe (struct partition, partition, partitions, link)
		partition_free(partition);
}

void partition_name(const struct partition *partition, const struct frame_device *device,
	char name[PARTITION_NAME_MAX])
{
	char uuid[DEVICE_UUID_TEXT];

	device_uuid_text(device, uuid);
	snprintf(name, PARTITION_NAME_MAX, "%s/%s", uuid, partition->id);
}

/* Splits "UUID/ID" in place; an ID may contain slashes. */
static void limit_by_partition(const struct list *partitions, const struct devices *devices,
	char *name, struct frame_limits *limits)
{
	const struct frame_device *device;
	const struct partition *partition;
	char *slash = strchr(name, '/');

	if (!slash)
		return;
	*slash = '\0';
	if (devices_find(devices, name, &device) < 0)
		return;
	partition = partitions_find(partitions, device, slash + 1);
	if (partition)
		limits->partition[device->ordinal] = partition->chunks;
}

void partitions_limit(const struct list *partitions, const struct devices *devices,
	const char *names, struct frame_limits *limits)
{
	char text[FRAME_TEXT_MAX], *rest = text, *name;

	limits->is_partitioned = 1;
	limits->active_threads = ACTIVE_THREADS_ALL;
	snprintf(text, sizeof(text), "%s", names);
	while ((name = strsep(&rest, ",")))
		limit_by_partition(partitions, devices, name, limits);
}
