/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Static partitions of SMs. Loop thread.
 *
 * Invariant: no chunk of a GPU is in two partitions that one server may use.
 */

#include "partitions.h"

#include <stdio.h>
#include <string.h>

#include "slot.h"

/* ---- chunks */

uint64_t chunks_of(const struct frame_device *device)
{
	return device->n_chunks < 64 ? (UINT64_C(1) << device->n_chunks) - 1 : UINT64_MAX;
}

static unsigned remaining_sms(const struct frame_device *device)
{
	return device->n_sms - MIN(device->n_chunks * device->sm_chunk, device->n_sms);
}

uint64_t chunks_remainder(const struct frame_device *device)
{
	return device->n_chunks < 64 && remaining_sms(device) > 0 ? UINT64_C(1) << device->n_chunks
								  : 0;
}

unsigned chunks_sms(uint64_t chunks, const struct frame_device *device)
{
	return chunks_count(chunks & chunks_of(device)) * device->sm_chunk +
	       (chunks & chunks_remainder(device) ? remaining_sms(device) : 0);
}

uint64_t chunks_first(uint64_t chunks, unsigned n)
{
	uint64_t first = 0;

	for (; chunks && n > 0; n--) {
		first |= chunks & -chunks;
		chunks &= chunks - 1;
	}
	return first;
}

/* ---- which partitions */

bool partition_is_of(const struct partition *partition, const struct frame_device *device)
{
	return memcmp(partition->uuid, device->uuid, sizeof(partition->uuid)) == 0;
}

bool partition_serves(const struct partition *partition, const struct slot *slot)
{
	return !partition->slot || partition->slot == slot;
}

uint64_t partitions_used(
	const struct list *partitions, const struct frame_device *device, const struct slot *slot)
{
	uint64_t used = 0;

	list_each (const struct partition, partition, partitions, link)
		if (partition_is_of(partition, device) &&
			(!slot || partition_serves(partition, slot)))
			used |= partition->chunks;
	return used;
}

struct partition *partitions_find(const struct list *partitions, const struct frame_device *device,
	const char *id, const struct slot *slot)
{
	list_each (struct partition, partition, partitions, link)
		if (partition_is_of(partition, device) && partition_serves(partition, slot) &&
			strcmp(partition->id, id) == 0)
			return partition;
	return NULL;
}

struct partition *partitions_find_named(const struct list *partitions,
	const struct frame_device *device, const char *name, const struct slot *slot)
{
	list_each (struct partition, partition, partitions, link)
		if (partition_is_of(partition, device) && partition->slot == slot &&
			strcmp(partition->name, name) == 0)
			return partition;
	return NULL;
}

struct partition *partitions_find_bound(
	const struct list *partitions, const struct frame_device *device, uint32_t group)
{
	list_each (struct partition, partition, partitions, link)
		if (partition_is_of(partition, device) && partition_is_bound(partition, group))
			return partition;
	return NULL;
}

/* ---- make and free */

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

static struct partition *add_chunks(struct list *partitions, const uint8_t uuid[16],
	uint64_t chunks, const struct partition_wish *wish)
{
	struct partition *partition = calloc(1, sizeof(*partition));

	if (!partition)
		return NULL;
	memcpy(partition->uuid, uuid, sizeof(partition->uuid));
	partition->chunks = chunks;
	make_partition_id(chunks, partition->id);
	partition->slot = wish->slot;
	snprintf(partition->name, sizeof(partition->name), "%s", wish->name);
	partition->max_chunks = wish->max_chunks;
	partition->is_shareable = wish->is_shareable;
	list_init(&partition->bindings);
	list_add_tail(partitions, &partition->link);
	if (wish->slot)
		wish->slot->n_partitions++;
	return partition;
}

int partitions_add(struct list *partitions, const struct frame_device *device,
	const struct partition_wish *wish, struct partition **ret_partition)
{
	uint64_t used = partitions_used(partitions, device, wish->slot) | wish->lent;
	uint64_t chunks = chunks_first(chunks_of(device) & ~used, wish->n_chunks);
	uint64_t remainder = wish->has_remainder ? chunks_remainder(device) & ~used : 0;

	if (chunks_count(chunks) < wish->n_chunks)
		return -ENOSPC;
	if (wish->has_remainder && !remainder)
		return -EBUSY;
	*ret_partition = add_chunks(partitions, device->uuid, chunks | remainder, wish);
	return *ret_partition ? 0 : -ENOMEM;
}

int partitions_restore(struct list *partitions, const uint8_t uuid[16], uint64_t chunks,
	const struct partition_wish *wish, struct partition **ret_partition)
{
	struct frame_device device = {0};

	memcpy(device.uuid, uuid, sizeof(device.uuid));
	if (!chunks || (partitions_used(partitions, &device, wish->slot) & chunks) ||
		(wish->slot && partitions_find_named(partitions, &device, wish->name, wish->slot)))
		return -EINVAL;
	*ret_partition = add_chunks(partitions, uuid, chunks, wish);
	if (!*ret_partition)
		return -ENOMEM;
	(*ret_partition)->is_of_earlier_daemon = true;
	return 0;
}

void partition_free(struct partition *partition)
{
	list_each_safe (struct binding, binding, &partition->bindings, link) {
		list_remove(&binding->link);
		free(binding);
	}
	if (partition->slot)
		partition->slot->n_partitions--;
	list_remove(&partition->link);
	free(partition);
}

void partitions_free(struct list *partitions)
{
	list_each_safe (struct partition, partition, partitions, link)
		partition_free(partition);
}

void partitions_forget_slot(struct list *partitions, const struct slot *slot)
{
	list_each_safe (struct partition, partition, partitions, link)
		if (partition->slot == slot)
			partition_free(partition);
}

/* ---- bindings */

int partition_bind(struct partition *partition, uint32_t group)
{
	struct binding *binding = calloc(1, sizeof(*binding));

	if (!binding)
		return -ENOMEM;
	binding->group = group;
	list_add_tail(&partition->bindings, &binding->link);
	return 0;
}

bool partition_is_bound(const struct partition *partition, uint32_t group)
{
	list_each (const struct binding, binding, &partition->bindings, link)
		if (binding->group == group)
			return true;
	return false;
}

void partition_unbind(struct partition *partition, uint32_t group)
{
	list_each_safe (struct binding, binding, &partition->bindings, link)
		if (binding->group == group) {
			list_remove(&binding->link);
			free(binding);
		}
}

void partitions_forget_group(struct list *partitions, uint32_t group)
{
	list_each (struct partition, partition, partitions, link)
		partition_unbind(partition, group);
}

/* ---- names */

void partition_name(const struct partition *partition, const struct frame_device *device,
	char name[PARTITION_NAME_MAX])
{
	char uuid[DEVICE_UUID_TEXT];

	device_uuid_text(device, uuid);
	snprintf(name, PARTITION_NAME_MAX, "%s/%s", uuid, partition->id);
}
