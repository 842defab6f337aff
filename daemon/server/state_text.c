/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The daemon's state as text. Loop thread.
 *
 * Invariant: each line is checked as the command that sets the same is. A record that could not be
 * written is written again later, and the log says so once.
 */

#include "state_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "limit_text.h"
#include "namespaces.h"
#include "server.h"
#include "server_watch.h"
#include "daemon/text/tokenize.h"
#include "daemon/config/allowances.h"
#include "daemon/state/daemon.h"
#include "daemon/state/partitions.h"
#include "daemon/state/record.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/conn/listener.h"

/* ---- format */

/* In the place of a GPU's name, which it is not. */
#define SOFT_LIMIT_WORD "soft_limit"

static void write_limits(FILE *file, const struct settings *settings)
{
	fprintf(file, " %u %d", settings->active_threads, settings->priority);
	if (setting_is_set(settings, SETTING_SOFT_LIMIT))
		fprintf(file, " " SOFT_LIMIT_WORD " %" PRIu64, settings->soft_limit);
	for (unsigned i = 0; i < settings->n_memory; i++)
		fprintf(file, " %s %" PRIu64, settings->memory[i].device,
			settings->memory[i].bytes);
	fputc('\n', file);
}

static void write_servers(FILE *file, const struct daemon *daemon)
{
	list_each (const struct server, server, &daemon->servers, link_in_daemon) {
		if (!settings_are_any(&server->commands))
			continue;
		fprintf(file, "server %d", server->pid);
		write_limits(file, &server->commands);
	}
}

/* A UID of the file's section, and its limits, come from the file again. */
static void write_groups(FILE *file, const struct daemon *daemon)
{
	list_each (const struct group, group, &daemon->groups.list, link) {
		if (group->namespace || (group->is_of_file && !settings_are_any(&group->commands)))
			continue;
		fprintf(file, "group %s ", group->name);
		if (group->has_uid && !group->is_uid_of_file)
			fprintf(file, "%u", group->uid);
		else
			fputc('-', file);
		write_limits(file, &group->commands);
	}
}

/* The oldest namespace first, as each one becomes the first of the list. */
static void write_namespaces(FILE *file, const struct slot *slot)
{
	char server[SERVER_NAME_MAX];

	slot_name(slot, server);
	for (const struct list *link = slot->namespaces.prev; link != &slot->namespaces;
		link = link->prev) {
		const struct namespace *namespace =
			container_of(link, const struct namespace, link);

		fprintf(file, "namespace %s %u %s", server, slot->tenant->uid, namespace->name);
		write_limits(file, &namespace->group->commands);
		if (*namespace->cgroup)
			fprintf(file, "cgroup %s %u %s %u %s\n", server, slot->tenant->uid,
				namespace->name, namespace->cgroup_depth, namespace->cgroup);
	}
}

static void write_named_servers(FILE *file, const struct daemon *daemon)
{
	list_each (const struct tenant, tenant, &daemon->tenants, link)
		list_each (const struct slot, slot, &tenant->slots, link) {
			if (slot->is_deleted)
				continue;
			if (*slot->name)
				fprintf(file, "named %s %u %s\n", slot->name, tenant->uid,
					slot->devices ? slot->devices : "-");
			write_namespaces(file, slot);
		}
}

static void write_uuid(FILE *file, const uint8_t uuid[16])
{
	for (size_t i = 0; i < 16; i++)
		fprintf(file, "%02x", uuid[i]);
}

static void write_partition(
	FILE *file, const struct daemon *daemon, const struct partition *partition)
{
	char server[SERVER_NAME_MAX];

	if (!partition->slot) {
		fputs("partition ", file);
		write_uuid(file, partition->uuid);
		fprintf(file, " %" PRIx64 "\n", partition->chunks);
		return;
	}
	slot_name(partition->slot, server);
	fprintf(file, "sm-partition %s %u ", server, partition->slot->tenant->uid);
	write_uuid(file, partition->uuid);
	fprintf(file, " %" PRIx64 " %s %u %u", partition->chunks, partition->name,
		partition->max_chunks, partition->is_shareable);
	list_each (const struct binding, binding, &partition->bindings, link)
		fprintf(file, " %s", groups_get(&daemon->groups, binding->group)->namespace->name);
	fputc('\n', file);
}

static void write_partitions(FILE *file, const struct daemon *daemon)
{
	list_each (const struct partition, partition, &daemon->partitions, link)
		if (!partition->slot || !partition->slot->is_deleted)
			write_partition(file, daemon, partition);
}

char *state_text_format(const struct daemon *daemon)
{
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		return NULL;
	if (settings_are_any(&daemon->default_commands)) {
		fputs("default", file);
		write_limits(file, &daemon->default_commands);
	}
	if (daemon->is_memacct_off)
		fputs("feature memacct\n", file);
	if (daemon->is_socket_apart)
		fputs("feature default_socket\n", file);
	if (daemon->is_memory_audited)
		fputs("feature audit_log\n", file);
	write_servers(file, daemon);
	write_groups(file, daemon);
	write_named_servers(file, daemon);
	write_partitions(file, daemon);
	if (fclose(file) == 0)
		return text;
	free(text);
	return NULL;
}

/* ---- parse */

/* The next word of the line; "" at its end. */
static const char *next_word(char **rest)
{
	const char *word = strsep(rest, " ");

	return word ? word : "";
}

static bool read_memory(char **rest, struct settings *settings)
{
	static const struct devices none;
	uint64_t bytes;

	while (*rest) {
		const char *device = next_word(rest), *size = next_word(rest);

		if (parse_number(size, UINT64_MAX, &bytes) < 0)
			return false;
		if (strcmp(device, SOFT_LIMIT_WORD) == 0)
			settings->soft_limit = bytes;
		else if (!device_name_ok(device) ||
			 settings_set_memory(settings, &none, device, bytes) < 0)
			return false;
	}
	return true;
}

static bool read_limits(char **rest, struct settings *ret)
{
	const char *share = next_word(rest), *priority = next_word(rest);
	uint64_t active_threads;

	settings_init(ret);
	if (parse_number(share, ACTIVE_THREADS_ALL, &active_threads) < 0 ||
		(strcmp(priority, "-1") != 0 && parse_priority(priority, &ret->priority) < 0))
		return false;
	ret->active_threads = (uint32_t)active_threads;
	return read_memory(rest, ret);
}

static void parse_default(struct daemon *daemon, char *rest)
{
	struct settings settings;

	if (!read_limits(&rest, &settings))
		return;
	daemon->default_commands = settings;
	list_each (struct server, server, &daemon->servers, link_in_daemon)
		server->default_commands = settings;
}

/* What is not as at first. */
static void parse_feature(struct daemon *daemon, char *rest)
{
	daemon->is_memacct_off |= strcmp(rest, "memacct") == 0;
	daemon->is_socket_apart |= strcmp(rest, "default_socket") == 0;
	daemon->is_memory_audited |= strcmp(rest, "audit_log") == 0;
}

static void parse_server(struct daemon *daemon, char *rest)
{
	struct settings settings;
	struct server *server;
	uint64_t pid;

	if (parse_number(next_word(&rest), INT32_MAX, &pid) < 0 || !read_limits(&rest, &settings))
		return;
	server = server_find(daemon, (pid_t)pid);
	if (server)
		server->commands = settings;
}

static void parse_group(struct daemon *daemon, char *rest)
{
	const char *name = next_word(&rest), *owner = next_word(&rest);
	bool has_uid = strcmp(owner, "-") != 0;
	struct settings settings;
	struct group *group;
	uint64_t uid = 0;

	if (!group_name_ok(name) || groups_find(&daemon->groups, name) ||
		(has_uid && parse_number(owner, UINT32_MAX - 1, &uid) < 0) ||
		!read_limits(&rest, &settings) || groups_add(&daemon->groups, name, &group) < 0)
		return;
	group->has_uid = has_uid;
	group->uid = (uid_t)uid;
	group->commands = settings;
}

/* The tenant of the next word, a UID; NULL: there is none. */
static struct tenant *read_tenant(struct daemon *daemon, char **rest)
{
	uint64_t uid;

	if (parse_number(next_word(rest), UINT32_MAX - 1, &uid) < 0 ||
		!daemon_serves(daemon, (uid_t)uid))
		return NULL;
	return tenant_get(daemon, (uid_t)uid, -EBADF);
}

static void parse_named(struct daemon *daemon, char *rest)
{
	const char *name = next_word(&rest);
	struct tenant *tenant = read_tenant(daemon, &rest);
	const char *devices = next_word(&rest);

	if (tenant)
		named_server_restore(
			tenant, name, strcmp(devices, "-") == 0 ? NULL : strdup(devices));
}

/* The slot of that server, which the lines before have made. */
static struct slot *find_server_slot(
	const struct daemon *daemon, struct tenant *tenant, const char *server)
{
	char shared[SERVER_NAME_MAX];

	slot_name(&tenant->shared, shared);
	return strcmp(server, shared) == 0 ? &tenant->shared : slot_find_named(daemon, server);
}

static void parse_namespace(struct daemon *daemon, char *rest)
{
	const char *server = next_word(&rest);
	struct tenant *tenant = read_tenant(daemon, &rest);
	struct slot *slot = tenant ? find_server_slot(daemon, tenant, server) : NULL;
	const char *name = next_word(&rest);
	struct namespace *namespace;
	struct error_message error;
	struct settings settings;

	if (!slot || slot->tenant != tenant || !server_name_ok(name) ||
		!read_limits(&rest, &settings))
		return;
	if (namespace_create(slot, name, &namespace, &error) < 0)
		log_control(&daemon->logs, "Namespace %s of server %s is not restored: %s", name,
			server, error.text);
	else
	namespace->group->commands = settings;
}

/* The namespace of the words server, UID and name, which lines before have made; NULL: none. */
static struct namespace *read_namespace(struct daemon *daemon, char **rest)
{
	const char *server = next_word(rest);
	struct tenant *tenant = read_tenant(daemon, rest);
	const struct slot *slot = tenant ? find_server_slot(daemon, tenant, server) : NULL;

	return slot ? namespace_find(slot, next_word(rest)) : NULL;
}

static void parse_cgroup(struct daemon *daemon, char *rest)
{
	struct namespace *namespace = read_namespace(daemon, &rest);
	uint64_t depth;

	if (!namespace || parse_number(next_word(&rest), UINT32_MAX, &depth) < 0)
		return;
	namespace->cgroup_depth = (uint32_t)depth;
	snprintf(namespace->cgroup, sizeof(namespace->cgroup), "%s", next_word(&rest));
}

static bool is_hex(const char *text, size_t n_max)
{
	size_t n = strspn(text, "0123456789abcdef");

	return n > 0 && n <= n_max && !text[n];
}

/* A GPU, and chunks of it. */
static bool read_chunks(char **rest, uint8_t uuid[16], uint64_t *ret_chunks)
{
	const char *text = next_word(rest), *chunks = next_word(rest);

	if (!is_hex(text, 32) || strlen(text) != 32 || !is_hex(chunks, 16))
		return false;
	for (size_t i = 0; i < 16; i++)
		(void)sscanf(text + 2 * i, "%2hhx", &uuid[i]);
	*ret_chunks = strtoull(chunks, NULL, 16);
	return true;
}

static void parse_partition(struct daemon *daemon, char *rest)
{
	const struct partition_wish wish = {.name = ""};
	struct partition *partition;
	uint8_t uuid[16];
	uint64_t chunks;

	if (read_chunks(&rest, uuid, &chunks))
		(void)partitions_restore(&daemon->partitions, uuid, chunks, &wish, &partition);
}

/* A namespace that could not be restored is left out. */
static void read_bindings(char **rest, struct partition *partition)
{
	while (*rest) {
		const struct namespace *namespace =
			namespace_find(partition->slot, next_word(rest));

		if (namespace && !partition_is_bound(partition, namespace->group->id))
			(void)partition_bind(partition, namespace->group->id);
	}
}

static void parse_sm_partition(struct daemon *daemon, char *rest)
{
	const char *server = next_word(&rest);
	struct tenant *tenant = read_tenant(daemon, &rest);
	struct partition_wish wish = {
		.slot = tenant ? find_server_slot(daemon, tenant, server) : NULL};
	struct partition *partition;
	uint8_t uuid[16];
	uint64_t chunks, max_chunks, is_shareable;

	if (!wish.slot || wish.slot->tenant != tenant || !read_chunks(&rest, uuid, &chunks))
		return;
	wish.name = next_word(&rest);
	if (!server_name_ok(wish.name) || parse_number(next_word(&rest), 64, &max_chunks) < 0 ||
		parse_number(next_word(&rest), 1, &is_shareable) < 0)
		return;
	wish.max_chunks = (unsigned)max_chunks;
	wish.is_shareable = is_shareable;
	if (partitions_restore(&daemon->partitions, uuid, chunks, &wish, &partition) == 0)
		read_bindings(&rest, partition);
}

static void parse_line(struct daemon *daemon, char *line)
{
	static const struct {
		const char *word;
		void (*parse)(struct daemon *daemon, char *rest);
	} kinds[] = {
		{"default", parse_default},
		{"feature", parse_feature},
		{"server", parse_server},
		{"group", parse_group},
		{"named", parse_named},
		{"namespace", parse_namespace},
		{"cgroup", parse_cgroup},
		{"partition", parse_partition},
		{"sm-partition", parse_sm_partition},
	};
	const char *word = next_word(&line);

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(kinds[i].word, word) == 0 && line)
			kinds[i].parse(daemon, line);
}

void state_text_parse(struct daemon *daemon, char *text)
{
	char *line;

	while ((line = strsep(&text, "\n")))
		parse_line(daemon, line);
}

/* ---- the record */

void servers_record(struct daemon *daemon)
{
	static struct record records[SERVERS_LIMIT];
	_cleanup_free_ char *state = state_text_format(daemon);
	size_t n = 0;
	int r;

	list_each (struct server, server, &daemon->servers, link_in_daemon)
		if (n < SERVERS_LIMIT)
			records[n++] = server_record(server);
	r = state ? record_store(daemon->listener->directory, records, n,
			    daemon->is_quitting && n == 0 ? "" : state)
		  : -ENOMEM;
	if (r == 0 && daemon->is_record_due)
		log_control(&daemon->logs, "The record of servers in %s is written again",
			daemon->config.pipe_directory);
	else if (r < 0 && !daemon->is_record_due)
		log_control(&daemon->logs,
			"Cannot write the record of servers in %s: %s: if this daemon dies, the "
			"next daemon does not adopt them, nor keep what commands have set",
			daemon->config.pipe_directory, strerror(-r));
	daemon->is_record_due = r < 0;
	if (r < 0 && !daemon->is_over)
		daemon_want_later(daemon, WANT_RECORD);
}

/*
 * At once, as starts take time: if this daemon dies before it has started all servers of a turn,
 * the next daemon has to know those that run.
 */
static void record_start(struct server *server)
{
	servers_record(server->daemon);
}

const struct server_watch record_watch = {.on_start = record_start};
