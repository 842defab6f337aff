/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzzer: the daemon's state as text, which the next daemon reads. What the daemon keeps of a
 * text is within its limits, and the next daemon keeps the same of what this one writes.
 */

#include <string.h>

#include "../../daemon/conn/endpoint.h"
#include "../../daemon/server/namespaces.h"
#include "../../daemon/server/server.h"
#include "../../daemon/server/state_text.h"
#include "../../daemon/state/daemon.h"
#include "../../daemon/state/partitions.h"
#include "../../daemon/state/slot.h"
#include "../../daemon/state/tenant.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct daemon daemon_; /* "daemon" is a function of libc's */
static struct server server = {.pid = 1};

/* No file is made. */
int endpoint_open(_unused_ struct daemon *daemon, _unused_ const char *directory,
	_unused_ const char *name, _unused_ uint32_t entry, struct endpoint **ret_endpoint,
	_unused_ struct error_message *error)
{
	*ret_endpoint = NULL;
	return 0;
}

void endpoint_close(_unused_ struct endpoint *endpoint, _unused_ bool is_forgotten)
{
}

static void must(bool condition)
{
	if (!condition)
		abort();
}

static void check_settings(const struct settings *settings)
{
	must(settings->active_threads <= ACTIVE_THREADS_ALL);
	must(settings->priority >= -1 && settings->priority <= PRIORITY_MAX);
	must(settings->n_memory <= DEVICES_MAX);
	for (unsigned i = 0; i < settings->n_memory; i++)
		must(device_name_ok(settings->memory[i].device));
}

static void check_daemon(void)
{
	unsigned n_groups = 0;

	check_settings(&daemon_.default_commands);
	check_settings(&server.commands);
	list_each (const struct group, group, &daemon_.groups.list, link) {
		must(group_name_ok(group->name) &&
			groups_find(&daemon_.groups, group->name) == group);
		check_settings(&group->commands);
		n_groups++;
	}
	list_each (const struct tenant, tenant, &daemon_.tenants, link)
		list_each (const struct slot, slot, &tenant->slots, link)
			list_each (const struct namespace, namespace, &slot->namespaces, link)
				must(server_name_ok(namespace->name) &&
					namespace->group->namespace == namespace);
	must(daemon_.groups.n == n_groups && n_groups <= GROUPS_MAX);
	list_each (const struct partition, one, &daemon_.partitions, link) {
		must(one->chunks != 0);
		list_each (const struct partition, other, &daemon_.partitions, link)
			must(other == one ||
				memcmp(one->uuid, other->uuid, sizeof(one->uuid)) != 0 ||
				(one->slot && other->slot && one->slot != other->slot) ||
				!(one->chunks & other->chunks));
	}
}

/* What a new daemon writes that has read the text. The caller frees it. */
static char *read_and_write(char *text)
{
	char *written;

	/* The daemon of user 1, which serves no other one, and has no log. */
	daemon_ = (struct daemon){.config.uid = 1, .is_over = true};
	daemon_.logs.control.fd = daemon_.logs.server.fd = -EBADF;
	list_init(&daemon_.servers);
	list_init(&daemon_.spares);
	list_init(&daemon_.tenants);
	accounts_init(&daemon_.accounts, "/dev/null");
	list_init(&daemon_.partitions);
	groups_init(&daemon_.groups);
	settings_init(&daemon_.default_commands);
	settings_init(&server.commands);
	list_add_tail(&daemon_.servers, &server.link_in_daemon);
	state_text_parse(&daemon_, text);
	check_daemon();
	written = state_text_format(&daemon_);
	must(written);
	named_servers_close(&daemon_);
	tenants_sweep(&daemon_);
	accounts_fini(&daemon_.accounts);
	groups_fini(&daemon_.groups);
	partitions_free(&daemon_.partitions);
	return written;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = malloc(size + 1), *first = NULL, *copy = NULL, *second = NULL;

	must(text);
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	first = read_and_write(text);
	copy = strdup(first);
	must(copy);
	second = read_and_write(copy);
	must(strcmp(first, second) == 0);
	return 0;
}
