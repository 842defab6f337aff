/* SPDX-License-Identifier: Apache-2.0 */

/*
 * lspart and sm_partition, for a daemon with -S. Loop thread.
 */

#include <stdio.h>
#include <string.h>

#include "command_scope.h"
#include "command_conn.h"
#include "commands.h"
#include "daemon.h"
#include "partitions.h"
#include "conn.h"

/* Without -S the daemon does not know the command, as NVIDIA's. */
static bool check_mode(struct peer *peer, const struct words *words)
{
	if (peer->daemon->config.is_partitioned)
		return true;
	commander_fail(peer, "Unknown command \"%s\"", words->word[0]);
	return false;
}

static void print_row(struct peer *peer, const char *const column[7])
{
	commander_reply(peer, "%-24s %-12s %-8s %-8s %-6s %-6s %s", column[0], column[1], column[2],
		column[3], column[4], column[5], column[6]);
}

static void print_device(struct peer *peer, const struct frame_device *device)
{
	uint64_t used = partitions_used(&peer->daemon->partitions, device);
	unsigned n_used = chunks_count(used), n_used_sms = n_used * device->sm_chunk;
	char uuid[DEVICE_UUID_TEXT], chunks[2][16], sms[2][16];

	scope_short_uuid(device, uuid);
	snprintf(chunks[0], sizeof(chunks[0]), "%u", device->n_chunks - n_used);
	snprintf(chunks[1], sizeof(chunks[1]), "%u", n_used);
	snprintf(sms[0], sizeof(sms[0]), "%u", device->n_sms - n_used_sms);
	snprintf(sms[1], sizeof(sms[1]), "%u", n_used_sms);
	print_row(
		peer, (const char *const[7]){uuid, "-", chunks[0], chunks[1], sms[0], sms[1], "-"});
}

static void print_partition(
	struct peer *peer, const struct frame_device *device, const struct partition *partition)
{
	unsigned n_chunks = chunks_count(partition->chunks);
	char uuid[DEVICE_UUID_TEXT], chunks[16], sms[16];
	bool is_used = partition_count_clients(peer->daemon, partition) > 0;

	scope_short_uuid(device, uuid);
	snprintf(chunks, sizeof(chunks), "%u", n_chunks);
	snprintf(sms, sizeof(sms), "%u", n_chunks * device->sm_chunk);
	print_row(peer, (const char *const[7]){uuid, partition->id, "-", chunks, "-", sms,
				is_used ? "Yes" : "No"});
}

void command_lspart(struct peer *peer, const struct words *words)
{
	const struct devices *devices = scope_devices(peer);

	if (!check_mode(peer, words))
		return;
	print_row(peer, (const char *const[7]){
				"GPU", "Partition", "free", "used", "free", "used", "clients"});
	print_row(peer, (const char *const[7]){"", "", "chunk(s)", "chunk(s)", "SM", "SM", ""});
	for (unsigned i = 0; i < devices->n; i++) {
		print_device(peer, &devices->items[i]);
		list_for_each (item, &peer->daemon->partitions) {
			const struct partition *partition =
				container_of(item, struct partition, link);

			if (memcmp(partition->uuid, devices->items[i].uuid, 16) == 0)
				print_partition(peer, &devices->items[i], partition);
		}
	}
}

static void add(struct peer *peer, const struct frame_device *device, const char *chunks)
{
	char name[PARTITION_NAME_MAX];
	struct partition *partition;
	uint64_t n_chunks;
	int r;

	if (parse_number(chunks, 64, &n_chunks) < 0 || n_chunks == 0) {
		commander_fail(peer,
			"\"%s\" is not a number of chunks: this GPU has %u, of %u SMs each", chunks,
			device->n_chunks, device->sm_chunk);
		return;
	}
	r = partitions_add(&peer->daemon->partitions, device, (unsigned)n_chunks, &partition);
	if (r == -ENOSPC) {
		commander_fail(peer,
			"Failed to fulfill the requested SM partition of %s chunks, error "
			"CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION",
			chunks);
		return;
	}
	if (r < 0) {
		commander_fail(peer, "The daemon has no memory");
		return;
	}
	partition_name(partition, device, name);
	commander_reply(peer, "Partition %s created", name);
}

static void remove_partition(struct peer *peer, const struct frame_device *device, const char *id)
{
	struct partition *partition = partitions_find(&peer->daemon->partitions, device, id);
	char uuid[DEVICE_UUID_TEXT];

	device_uuid_text(device, uuid);
	if (!partition) {
		commander_fail(peer, "Partition %s/%s not found", uuid, id);
		return;
	}
	if (partition_count_clients(peer->daemon, partition) > 0) {
		commander_fail(peer,
			"Partition %s/%s in use. Terminate all clients before removing.", uuid, id);
		return;
	}
	partition_free(partition);
	commander_reply(peer, "Partition %s/%s removed", uuid, id);
}

void command_sm_partition(struct peer *peer, const struct words *words)
{
	const char *verb = words->word[1], *name = words->word[2];
	const struct devices *devices = scope_devices(peer);
	const struct frame_device *device = NULL;

	if (!check_mode(peer, words) || !scope_may_set(peer, words->word[0]) ||
		!scope_check_device(peer, devices, name))
		return;
	if (devices_find(devices, name, &device) < 0) {
		commander_fail(peer, "The GPUs are not known: start a server first");
		return;
	}
	if (strcmp(verb, "add") == 0)
		add(peer, device, words->word[3]);
	else if (strcmp(verb, "rm") == 0)
		remove_partition(peer, device, words->word[3]);
	else
		commander_fail(
			peer, "Usage: sm_partition add DEVICE CHUNKS, sm_partition rm DEVICE ID");
}
