/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the reply to `stats --json'. Any thread.
 *
 * Invariant: a sample is read whole or not at all. Members that top does not know are skipped,
 * so that a newer daemon may send more.
 */

#include "top_sample.h"

#include <jansson.h>

/* Numbers of a document are never negative; one that is counts as 0. */
static uint64_t get_number(const json_t *object, const char *name)
{
	json_int_t value = json_integer_value(json_object_get(object, name));

	return value > 0 ? (uint64_t)value : 0;
}

static const char *get_text(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static void read_gpus(struct top_client *client, const json_t *gpus)
{
	const json_t *gpu;
	size_t i;

	json_array_foreach(gpus, i, gpu)
	{
		uint64_t share = get_number(gpu, "share_sms");

		client->memory += get_number(gpu, "memory");
		client->away += get_number(gpu, "away");
		client->is_background |= share > 0;
		client->n_sms += share > 0 ? share : get_number(gpu, "sms");
		client->slowdown =
			MAX(client->slowdown, json_number_value(json_object_get(gpu, "slowdown")));
		client->n_device_sms += get_number(gpu, "device_sms");
	}
}

static int read_client(struct top_client *ret, const json_t *object)
{
	struct top_client client = {
		.server = (int64_t)get_number(object, "server"),
		.id = (int64_t)get_number(object, "client"),
		.pid = (int64_t)get_number(object, "pid"),
		.uid = (uid_t)get_number(object, "uid"),
		.group = get_text(object, "group"),
		.server_name = get_text(object, "server_name"),
		.command = get_text(object, "command"),
		.kernel = get_text(object, "kernel"),
		.launches = get_number(object, "launches") + get_number(object, "graph_launches"),
		.copies = get_number(object, "copies_in") + get_number(object, "copies_out") +
			  get_number(object, "copies_within"),
		.bytes_in = get_number(object, "bytes_in"),
		.bytes_out = get_number(object, "bytes_out"),
		.busy_ns = get_number(object, "busy_ns"),
		.yielded_ns = get_number(object, "yielded_ns"),
		.errors = get_number(object, "errors"),
	};

	if (client.pid == 0 || !client.command)
		return -EBADMSG;
	read_gpus(&client, json_object_get(object, "gpus"));
	*ret = client;
	return 0;
}

static int read_clients(struct top_sample *sample, const json_t *clients)
{
	size_t n = json_array_size(clients);
	int r = 0;

	sample->clients = calloc(MAX(n, (size_t)1), sizeof(*sample->clients));
	if (!sample->clients)
		return -ENOMEM;
	for (size_t i = 0; i < n && r == 0; i++)
		r = read_client(&sample->clients[i], json_array_get(clients, i));
	sample->n_clients = n;
	return r;
}

static void read_servers(struct top_sample *sample, const json_t *servers)
{
	const json_t *server;
	size_t i;

	json_array_foreach(servers, i, server)
	{
		sample->store += get_number(server, "store");
		sample->store_limit += get_number(server, "store_limit");
	}
}

static int read_document(struct top_sample *sample, const json_t *document)
{
	const json_t *clients = json_object_get(document, "clients");

	sample->time_ns = get_number(document, "time_ns");
	if (sample->time_ns == 0 || !json_is_array(clients))
		return -EBADMSG;
	read_servers(sample, json_object_get(document, "servers"));
	return read_clients(sample, clients);
}

int top_sample_read(struct top_sample *ret, const char *text, size_t size)
{
	struct top_sample sample = {.document = json_loadb(text, size, 0, NULL)};
	int r = read_document(&sample, sample.document);

	if (r < 0)
		top_sample_fini(&sample);
	else
		*ret = sample;
	return r;
}

void top_sample_fini(struct top_sample *sample)
{
	free(sample->clients);
	json_decref(sample->document);
	*sample = (struct top_sample){0};
}
