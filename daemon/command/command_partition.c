/* SPDX-License-Identifier: Apache-2.0 */

/*
 * lspart and sm_partition, for a daemon with -S; module_sm_partition.c has the commands of protocol
 * 3. Loop thread.
 */

#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "daemon/state/daemon.h"
#include "daemon/state/partitions.h"
#include "daemon/conn/conn.h"
#include "daemon/server/partition_choice.h"
#include "daemon/server/server.h"
#include "daemon/server/state_text.h"
#include "daemon/reply/command_reply.h"
#include "daemon/reply/command_scope.h"

/* Without partitions the daemon does not know the command, as the vendor's daemon. */
static bool check_partitioned(struct conn *conn, const struct tokens *tokens)
{
	if (conn->daemon->config.is_partitioned ||
		(strcmp(tokens->item[0], "lspart") == 0 && !list_empty(&conn->daemon->partitions)))
		return true;
	command_fail(conn, "Unknown command \"%s\"", tokens->item[0]);
	command_note(
		conn, "only a daemon with partitions of SMs (mps-control -d -S) has this command");
	return false;
}

static void lspart_print_row(struct conn *conn, const char *const column[7])
{
	command_reply(conn, "%-24s %-12s %-8s %-8s %-6s %-6s %s", column[0], column[1], column[2],
		column[3], column[4], column[5], column[6]);
}

static void lspart_print_device(struct conn *conn, const struct frame_device *device)
{
	uint64_t used = partitions_used(&conn->daemon->partitions, device, NULL);
	unsigned n_used = chunks_count(used & chunks_of(device));
	unsigned n_used_sms = chunks_sms(used, device);
	char uuid[DEVICE_UUID_TEXT], chunks[2][16], sms[2][16];

	scope_short_uuid(device, uuid);
	snprintf(chunks[0], sizeof(chunks[0]), "%u", device->n_chunks - n_used);
	snprintf(chunks[1], sizeof(chunks[1]), "%u", n_used);
	snprintf(sms[0], sizeof(sms[0]), "%u", device->n_sms - n_used_sms);
	snprintf(sms[1], sizeof(sms[1]), "%u", n_used_sms);
	lspart_print_row(
		conn, (const char *const[7]){uuid, "-", chunks[0], chunks[1], sms[0], sms[1], "-"});
}

static void lspart_print_partition(
	struct conn *conn, const struct frame_device *device, const struct partition *partition)
{
	unsigned n_chunks = chunks_count(partition->chunks & chunks_of(device));
	char uuid[DEVICE_UUID_TEXT], chunks[16], sms[16];
	bool is_used = partition_count_clients(conn->daemon, partition) > 0;

	scope_short_uuid(device, uuid);
	snprintf(chunks, sizeof(chunks), "%u", n_chunks);
	snprintf(sms, sizeof(sms), "%u", chunks_sms(partition->chunks, device));
	lspart_print_row(conn, (const char *const[7]){uuid, partition->id, "-", chunks, "-", sms,
				       is_used ? "Yes" : "No"});
}

void command_lspart(struct conn *conn, const struct tokens *tokens)
{
	const struct devices *devices = &conn->daemon->devices;

	if (!check_partitioned(conn, tokens))
		return;
	lspart_print_row(conn, (const char *const[7]){"GPU", "Partition", "free", "used", "free",
				       "used", "clients"});
	lspart_print_row(
		conn, (const char *const[7]){"", "", "chunk(s)", "chunk(s)", "SM", "SM", ""});
	for (unsigned i = 0; i < devices->n; i++) {
		lspart_print_device(conn, &devices->items[i]);
		list_each (const struct partition, partition, &conn->daemon->partitions, link)
			if (memcmp(partition->uuid, devices->items[i].uuid, 16) == 0)
				lspart_print_partition(conn, &devices->items[i], partition);
	}
}

static void add_partition(struct conn *conn, const struct frame_device *device, const char *chunks)
{
	struct partition_wish wish = {.name = ""};
	char name[PARTITION_NAME_MAX];
	struct partition *partition;
	uint64_t n_chunks;
	int r;

	if (parse_number(chunks, 64, &n_chunks) < 0 || n_chunks == 0) {
		command_fail(conn,
			"\"%s\" is not a number of chunks: this GPU has %u chunks of %u SMs each",
			chunks, device->n_chunks, device->sm_chunk);
		return;
	}
	wish.n_chunks = (unsigned)n_chunks;
	list_each (const struct server, server, &conn->daemon->servers, link_in_daemon)
		wish.lent |= partition_lent(server, device, NULL);
	r = partitions_add(&conn->daemon->partitions, device, &wish, &partition);
	if (r == -ENOSPC) {
		command_fail(conn,
			"Failed to fulfill the requested SM partition of %s chunks, error "
			"CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION",
			chunks);
		return;
	}
	if (r < 0) {
		command_fail(conn, "The daemon is out of memory");
		return;
	}
	servers_record(conn->daemon);
	partition_name(partition, device, name);
	command_reply(conn, "Partition %s created", name);
}

static void remove_partition(struct conn *conn, const struct frame_device *device, const char *id)
{
	struct partition *partition = partitions_find(&conn->daemon->partitions, device, id, NULL);
	char uuid[DEVICE_UUID_TEXT];

	device_uuid_text(device, uuid);
	if (!partition) {
		command_fail(conn, "Partition %s/%s not found", uuid, id);
		return;
	}
	if (partition_count_clients(conn->daemon, partition) > 0) {
		command_fail(conn, "Partition %s/%s in use. Terminate all clients before removing.",
			uuid, id);
		return;
	}
	partition_free(partition);
	servers_record(conn->daemon);
	command_reply(conn, "Partition %s/%s removed", uuid, id);
}

void command_sm_partition(struct conn *conn, const struct tokens *tokens)
{
	const char *verb = tokens->item[1], *name = tokens->item[2];
	const struct devices *devices = &conn->daemon->devices;
	const struct frame_device *device = NULL;

	if (!check_partitioned(conn, tokens) || !scope_permits_config(conn, tokens->item[0]) ||
		!scope_check_device(conn, devices, name))
		return;
	if (devices_find(devices, name, &device) < 0) {
		command_fail(conn, "The GPUs are not known: start a server first");
		return;
	}
	if (strcmp(verb, "add") == 0)
		add_partition(conn, device, tokens->item[3]);
	else if (strcmp(verb, "rm") == 0)
		remove_partition(conn, device, tokens->item[3]);
	else
		command_fail(
			conn, "Usage: sm_partition add DEVICE CHUNKS, sm_partition rm DEVICE ID");
}
