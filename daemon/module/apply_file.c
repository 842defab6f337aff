/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The file of -a. main() before the loop.
 *
 * Invariant: a file with a key that is not known, or with a value of another type, gives no
 * command.
 */

#include "apply_file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules.h"
#include "daemon/text/nearest.h"
#include "daemon/config/toml.h"
#include "daemon/state/server_name.h"

/* What a key of a table means. */
enum meaning {
	MEANING_NOTHING, /* nothing here: the vendor's daemon works in another way */
	MEANING_CREATE,  /* an option of `create' */
	MEANING_SWITCH,  /* the same, which is true or false */
	MEANING_LIMIT,   /* an option of `set' */
	MEANING_OWN,     /* a word that the function of the table reads */
	MEANING_TABLES,  /* further tables, by their names */
	MEANING_ARRAY,   /* tables in a row */
	MEANING_REFUSED, /* not served, except for a value that says so */
};

struct key {
	const char *name;
	enum meaning meaning;
};

#define TIME_SLICES                                                                                \
	"is not served: the GPU's driver decides how long the work of one program runs before "    \
	"that of another (nvidia-smi compute-policy)"

/* Why keys are refused, and the value that is not; NULL: each is. */
static const struct refusal {
	const char *name, *harmless, *reason;
} refusals[] = {
	{"timeslice", "default", TIME_SLICES},
	{"timeslice_yield_level", NULL, TIME_SLICES},
	{"timeslice_pct", NULL,
		"is not served: the GPU's driver gives servers equal time. Namespaces of one "
		"server can have shares of SMs (active_thread_percentage) and priorities"},
	{"locality_domains", "false", MODULE_NO_DOMAINS},
	{"enabled", "true", MODULE_SHARES_CONTEXT},
};

static const struct key top_keys[] = {
	{"schema_version", MEANING_NOTHING},
	{"compute_policy", MEANING_TABLES},
	{"servers", MEANING_TABLES},
	{"features", MEANING_TABLES},
	{NULL, 0},
};

static const struct key policy_keys[] = {
	{"timeslice", MEANING_REFUSED},
	{"timeslice_yield_level", MEANING_REFUSED},
	{NULL, 0},
};

static const struct key server_keys[] = {
	{"uid", MEANING_CREATE},
	{"allowed_devices", MEANING_CREATE},
	{"pinned_memory_limit", MEANING_LIMIT},
	{"soft_limit", MEANING_LIMIT},
	{"active_thread_percentage", MEANING_LIMIT},
	{"client_priority", MEANING_LIMIT},
	{"locality_domains", MEANING_REFUSED},
	{"timeslice_pct", MEANING_REFUSED},
	{"devices", MEANING_ARRAY},
	{"namespaces", MEANING_TABLES},
	{NULL, 0},
};

static const struct key namespace_keys[] = {
	{"pinned_memory_limit", MEANING_LIMIT},
	{"soft_limit", MEANING_LIMIT},
	{"active_thread_percentage", MEANING_LIMIT},
	{"client_priority", MEANING_LIMIT},
	{"cgroup", MEANING_LIMIT},
	{"cgroup_depth", MEANING_LIMIT},
	{"devices", MEANING_ARRAY},
	{NULL, 0},
};

static const struct key device_keys[] = {
	{"uuid", MEANING_OWN},
	{"sm_partitions", MEANING_ARRAY},
	{NULL, 0},
};

static const struct key partition_keys[] = {
	{"name", MEANING_OWN},
	{"chunks", MEANING_CREATE},
	{"max_chunks", MEANING_CREATE},
	{"include_remainder", MEANING_SWITCH},
	{"shareable", MEANING_SWITCH},
	{NULL, 0},
};

/* Of a namespace. */
static const struct key binding_keys[] = {
	{"uuid", MEANING_OWN},
	{"sm_partition", MEANING_OWN},
	{NULL, 0},
};

static const struct key feature_keys[] = {
	{"memacct", MEANING_TABLES},
	{"context-share", MEANING_TABLES},
	{NULL, 0},
};

static const struct key memacct_keys[] = {
	{"enabled", MEANING_OWN},
	{"audit_log", MEANING_OWN},
	{"force_polling", MEANING_NOTHING},
	{NULL, 0},
};

static const struct key context_share_keys[] = {
	{"enabled", MEANING_REFUSED},
	{"default_socket", MEANING_OWN},
	{NULL, 0},
};

struct reader {
	const char *path;
	FILE *out;
	struct error_message *error;
};

/* ---- errors */

static int line_of(const json_t *node)
{
	return (int)json_integer_value(json_object_get(node, "line"));
}

static int refuse_key(const struct reader *reader, const json_t *node, const char *where,
	const char *name, const struct key *keys)
{
	const char *names[16], *nearest;
	size_t n = 0;

	while (keys[n].name) {
		names[n] = keys[n].name;
		n++;
	}
	nearest = nearest_word(name, names, n);
	return error_message_set(reader->error, -EINVAL,
		"%.160s: line %d: unknown key %.64s%s%s: did you mean %s?", reader->path,
		line_of(node), name, *where ? " of " : "", where, nearest ? nearest : names[0]);
}

static int refuse_value(
	const struct reader *reader, const json_t *node, const char *name, const char *what)
{
	return error_message_set(reader->error, -EINVAL, "%.160s: line %d: %.64s %s", reader->path,
		line_of(node), name, what);
}

/* ---- tables */

static const struct key *find_key(const struct key *keys, const char *name)
{
	while (keys->name && strcmp(keys->name, name) != 0)
		keys++;
	return keys->name ? keys : NULL;
}

/* What the value is in the words of a command; NULL: no word, number, true or false. */
static const char *text_of(const json_t *value, char number[24])
{
	const char *text = json_string_value(value);

	if (json_is_boolean(value))
		return json_is_true(value) ? "true" : "false";
	if (!json_is_integer(value))
		return text && *text && !strpbrk(text, " \t\n\r") ? text : NULL;
	snprintf(number, 24, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	return number;
}

static int check_refused(const struct reader *reader, const json_t *item, const char *name)
{
	const struct refusal *refusal = refusals;
	char number[24];
	const char *text = text_of(json_object_get(item, "value"), number);

	while (strcmp(refusal->name, name) != 0)
		refusal++;
	return refusal->harmless && text && strcmp(text, refusal->harmless) == 0
		       ? 0
		       : refuse_value(reader, item, name, refusal->reason);
}

static int check_key(const struct reader *reader, const json_t *item, const struct key *key)
{
	const char *name = key->name;

	if (key->meaning == MEANING_TABLES)
		return json_object_get(item, "table")
			       ? 0
			       : refuse_value(reader, item, name, "is not a table");
	if (key->meaning == MEANING_ARRAY)
		return json_object_get(item, "array")
			       ? 0
			       : refuse_value(reader, item, name, "is not an array of tables");
	if (!json_object_get(item, "value"))
		return refuse_value(reader, item, name, "is not a single value");
	return key->meaning == MEANING_REFUSED ? check_refused(reader, item, name) : 0;
}

/* Whether each key of the table is known and has a value, or a table, as it needs. */
static int check_table(
	const struct reader *reader, json_t *node, const char *where, const struct key *keys)
{
	json_t *table = json_object_get(node, "table"), *item;
	const char *name;
	int r = 0;

	if (!table)
		return refuse_value(reader, node, where, "is not a table");
	json_object_foreach(table, name, item)
	{
		const struct key *key = find_key(keys, name);

		if (r < 0)
			break;
		r = key ? check_key(reader, item, key)
			: refuse_key(reader, item, where, name, keys);
	}
	return r;
}

/* A word of a command: the value of a key that the table has to have; NULL with an error message.
 */
static const char *own_word(const struct reader *reader, const json_t *node, const char *name)
{
	const json_t *item = json_object_get(json_object_get(node, "table"), name);
	const char *text = json_string_value(json_object_get(item, "value"));

	if (text && *text && !strpbrk(text, " \t\n\r"))
		return text;
	refuse_value(reader, item ? item : node, name, item ? "is not a word" : "is missing");
	return NULL;
}

/* " --key=value" for the keys of that meaning; their number, or negative. */
static int write_options(
	const struct reader *reader, json_t *node, const struct key *keys, enum meaning meaning)
{
	json_t *table = json_object_get(node, "table");
	char number[24];
	int n = 0;

	for (; keys->name; keys++) {
		json_t *item = json_object_get(table, keys->name);
		const json_t *value = json_object_get(item, "value");
		const char *text = text_of(value, number);

		if (!item || keys->meaning != meaning)
			continue;
		if (meaning == MEANING_SWITCH && !json_is_boolean(value))
			return refuse_value(reader, item, keys->name, "is neither true nor false");
		if (!text || (meaning != MEANING_SWITCH && json_is_boolean(value)))
			return refuse_value(
				reader, item, keys->name, "is neither a word nor a number");
		fprintf(reader->out, " --%s=%s", keys->name, text);
		n++;
	}
	return n;
}

/* The line that sets the limits, if there are any. */
static int write_limits(
	const struct reader *reader, json_t *node, const struct key *keys, const char *command)
{
	_cleanup_free_ char *line = NULL;
	size_t size;
	struct reader inner = *reader;
	int n;

	inner.out = open_memstream(&line, &size);
	if (!inner.out)
		return error_message_set(reader->error, -ENOMEM, "There is not enough memory");
	n = write_options(&inner, node, keys, MEANING_LIMIT);
	if (fclose(inner.out) == 0 && n > 0)
		fprintf(reader->out, "%s%s\n", command, line);
	return MIN(n, 0);
}

static int write_namespace(
	const struct reader *reader, const char *server, const char *name, json_t *node)
{
	char command[2 * SERVER_NAME_MAX + 64];
	int r = check_table(reader, node, name, namespace_keys);

	if (r < 0)
		return r;
	if (!server_name_ok(name))
		return refuse_value(reader, node, name,
			"is not a name of a namespace: it must have " SERVER_NAME_ACCEPTED);
	if (strcmp(name, "default") != 0)
		fprintf(reader->out, "namespace create %s --server=%s\n", name, server);
	snprintf(command, sizeof(command), "namespace set %s --server=%s", name, server);
	return write_limits(reader, node, namespace_keys, command);
}

/* ---- partitions of SMs */

static int write_partition(
	const struct reader *reader, const char *server, const char *device, json_t *node)
{
	int r = check_table(reader, node, "sm_partitions", partition_keys);
	const char *name = r < 0 ? NULL : own_word(reader, node, "name");

	if (!name)
		return -EINVAL;
	fprintf(reader->out, "sm-partition create %s --server=%s --device=%s", name, server,
		device);
	r = write_options(reader, node, partition_keys, MEANING_CREATE);
	if (r >= 0)
		r = write_options(reader, node, partition_keys, MEANING_SWITCH);
	fputc('\n', reader->out);
	return MIN(r, 0);
}

static int write_device(const struct reader *reader, const char *server, json_t *node)
{
	int r = check_table(reader, node, "devices", device_keys);
	const char *device = r < 0 ? NULL : own_word(reader, node, "uuid");
	json_t *partitions = json_object_get(json_object_get(node, "table"), "sm_partitions");
	json_t *item;
	size_t i;

	if (!device)
		return -EINVAL;
	json_array_foreach(json_object_get(partitions, "array"), i, item)
	{
		r = write_partition(reader, server, device, item);
		if (r < 0)
			break;
	}
	return r;
}

static int write_devices(const struct reader *reader, const char *server, json_t *node)
{
	json_t *devices = json_object_get(json_object_get(node, "table"), "devices"), *item;
	int r = 0;
	size_t i;

	json_array_foreach(json_object_get(devices, "array"), i, item)
	{
		r = write_device(reader, server, item);
		if (r < 0)
			break;
	}
	return r;
}

/* The partitions of a namespace, which are there by now. */
static int write_bindings(
	const struct reader *reader, const char *server, const char *name, json_t *node)
{
	json_t *devices = json_object_get(json_object_get(node, "table"), "devices"), *item;
	const char *device, *partition;
	size_t i;

	json_array_foreach(json_object_get(devices, "array"), i, item)
	{
		if (check_table(reader, item, "devices", binding_keys) < 0)
			return -EINVAL;
		device = own_word(reader, item, "uuid");
		partition = device ? own_word(reader, item, "sm_partition") : NULL;
		if (!partition)
			return -EINVAL;
		fprintf(reader->out,
			"sm-partition bind %s --server=%s --device=%s --namespace=%s\n", partition,
			server, device, name);
	}
	return 0;
}

/* ---- servers */

/* Calls `write' for each namespace of the server. */
static int write_namespaces(const struct reader *reader, const char *server, json_t *node,
	int (*write)(
		const struct reader *reader, const char *server, const char *name, json_t *node))
{
	json_t *namespaces = json_object_get(json_object_get(node, "table"), "namespaces");
	const char *name;
	json_t *item;
	int r = 0;

	json_object_foreach(json_object_get(namespaces, "table"), name, item)
	{
		if (r == 0)
			r = write(reader, server, name, item);
	}
	return r;
}

static int write_server(const struct reader *reader, const char *name, json_t *node)
{
	char command[SERVER_NAME_MAX + 32];
	int r = check_table(reader, node, name, server_keys);

	if (r < 0)
		return r;
	if (!server_name_ok(name))
		return refuse_value(reader, node, name,
			"is not a name of a server: it must have " SERVER_NAME_ACCEPTED);
	fprintf(reader->out, "server create %s", name);
	r = write_options(reader, node, server_keys, MEANING_CREATE);
	fputc('\n', reader->out);
	snprintf(command, sizeof(command), "server set %s", name);
	if (r >= 0)
		r = write_limits(reader, node, server_keys, command);
	if (r == 0)
		r = write_namespaces(reader, name, node, write_namespace);
	if (r == 0)
		r = write_devices(reader, name, node);
	return r == 0 ? write_namespaces(reader, name, node, write_bindings) : r;
}

static int write_servers(const struct reader *reader, json_t *servers)
{
	const char *name;
	json_t *item;
	int r = 0;

	json_object_foreach(json_object_get(servers, "table"), name, item)
	{
		if (r == 0)
			r = write_server(reader, name, item);
	}
	return r;
}

static int write_memacct(const struct reader *reader, json_t *node)
{
	json_t *enabled = json_object_get(json_object_get(node, "table"), "enabled");
	json_t *audit = json_object_get(json_object_get(node, "table"), "audit_log");
	const json_t *value = json_object_get(enabled, "value");
	const json_t *is_audited = json_object_get(audit, "value");
	int r = check_table(reader, node, "memacct", memacct_keys);

	if (r == 0 && enabled && !json_is_boolean(value))
		return refuse_value(reader, enabled, "enabled", "is neither true nor false");
	if (r == 0 && enabled && json_is_false(value))
		fputs("feature disable memacct\n", reader->out);
	if (r == 0 && audit && !json_is_boolean(is_audited))
		return refuse_value(reader, audit, "audit_log", "is neither true nor false");
	if (r == 0 && audit)
		fprintf(reader->out, "memacct set --audit-log=%s\n",
			json_is_true(is_audited) ? "true" : "false");
	return r;
}

static int write_context_share(const struct reader *reader, json_t *node)
{
	json_t *item = json_object_get(json_object_get(node, "table"), "default_socket");
	int r = check_table(reader, node, "context-share", context_share_keys);
	const char *word = r == 0 && item ? own_word(reader, node, "default_socket") : NULL;

	if (r < 0 || !item || !word)
		return item && !word ? -EINVAL : r;
	if (strcmp(word, "on") != 0 && strcmp(word, "off") != 0)
		return refuse_value(reader, item, "default_socket", "is neither on nor off");
	fprintf(reader->out, "context-share set default_socket=%s\n", word);
	return 0;
}

static int write_features(const struct reader *reader, json_t *features)
{
	json_t *table = json_object_get(features, "table");
	json_t *memacct = json_object_get(table, "memacct");
	json_t *share = json_object_get(table, "context-share");
	int r = features ? check_table(reader, features, "features", feature_keys) : 0;

	if (r == 0 && memacct)
		r = write_memacct(reader, memacct);
	return r == 0 && share ? write_context_share(reader, share) : r;
}

static int write_tree(const struct reader *reader, json_t *tree)
{
	json_t *top = json_object_get(tree, "table"), *policy, *version;
	int r = check_table(reader, tree, "", top_keys);

	if (r < 0)
		return r;
	version = json_object_get(top, "schema_version");
	policy = json_object_get(top, "compute_policy");
	if (version &&
		strncmp(json_string_value(json_object_get(version, "value")) ?: "", "1.", 2) != 0)
		return refuse_value(reader, version, "schema_version", "is not \"1.0\"");
	if (policy)
		r = check_table(reader, policy, "compute_policy", policy_keys);
	if (r == 0)
		r = write_features(reader, json_object_get(top, "features"));
	return r == 0 ? write_servers(reader, json_object_get(top, "servers")) : r;
}

char *apply_file_read(const char *path, struct error_message *error)
{
	json_t *tree = toml_read(path, error);
	struct reader reader = {.path = path, .error = error};
	char *text = NULL;
	size_t size;
	int r = -ENOMEM;

	if (!tree)
		return NULL;
	reader.out = open_memstream(&text, &size);
	if (reader.out)
		r = write_tree(&reader, tree);
	else
		error_message_set(error, r, "There is not enough memory");
	json_decref(tree);
	if (reader.out && fclose(reader.out) != 0)
		r = error_message_set(error, -ENOMEM, "There is not enough memory");
	if (r == 0)
		return text;
	free(text);
	return NULL;
}
