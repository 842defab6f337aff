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

#include "daemon/text/nearest.h"
#include "daemon/config/toml.h"
#include "daemon/state/server_name.h"

/* What a key of a table means. */
enum meaning {
	MEANING_NOTHING, /* nothing here: the vendor's daemon works in another way */
	MEANING_CREATE,  /* an option of `create' */
	MEANING_LIMIT,   /* an option of `set' */
	MEANING_TABLES,  /* further tables, by their names */
	MEANING_LATER,   /* not served yet */
};

struct key {
	const char *name;
	enum meaning meaning;
};

static const struct key top_keys[] = {
	{"schema_version", MEANING_NOTHING},
	{"compute_policy", MEANING_TABLES},
	{"servers", MEANING_TABLES},
	{"features", MEANING_TABLES},
	{NULL, 0},
};

static const struct key policy_keys[] = {
	{"timeslice", MEANING_NOTHING},
	{"timeslice_yield_level", MEANING_NOTHING},
	{NULL, 0},
};

static const struct key server_keys[] = {
	{"uid", MEANING_CREATE},
	{"allowed_devices", MEANING_CREATE},
	{"pinned_memory_limit", MEANING_LIMIT},
	{"soft_limit", MEANING_LIMIT},
	{"active_thread_percentage", MEANING_LIMIT},
	{"client_priority", MEANING_LIMIT},
	{"locality_domains", MEANING_LATER},
	{"timeslice_pct", MEANING_LATER},
	{"devices", MEANING_LATER},
	{"namespaces", MEANING_TABLES},
	{NULL, 0},
};

static const struct key namespace_keys[] = {
	{"pinned_memory_limit", MEANING_LIMIT},
	{"soft_limit", MEANING_LIMIT},
	{"active_thread_percentage", MEANING_LIMIT},
	{"client_priority", MEANING_LIMIT},
	{"cgroup", MEANING_LATER},
	{"cgroup_depth", MEANING_LATER},
	{"devices", MEANING_LATER},
	{NULL, 0},
};

static const struct key feature_keys[] = {
	{"memacct", MEANING_TABLES},
	{"context-share", MEANING_TABLES},
	{NULL, 0},
};

static const struct key switch_keys[] = {
	{"enabled", MEANING_NOTHING},
	{"audit_log", MEANING_NOTHING},
	{"force_polling", MEANING_NOTHING},
	{"default_socket", MEANING_NOTHING},
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

/* Whether each key of the table is known and has a value, or a table, as it needs. */
static int check_table(
	const struct reader *reader, json_t *node, const char *where, const struct key *keys)
{
	json_t *table = json_object_get(node, "table"), *item;
	const char *name;

	if (!table)
		return refuse_value(reader, node, where, "is not a table");
	json_object_foreach(table, name, item)
	{
		const struct key *key = find_key(keys, name);

		if (!key)
			return refuse_key(reader, item, where, name, keys);
		if (key->meaning == MEANING_LATER)
			return refuse_value(
				reader, item, name, "is not served by this daemon: leave it out");
		if ((key->meaning == MEANING_TABLES) != !!json_object_get(item, "table"))
			return refuse_value(reader, item, name,
				key->meaning == MEANING_TABLES ? "is not a table"
							       : "is not a single value");
	}
	return 0;
}

/* " --key=value" for the keys of that meaning; their number, or negative. */
static int write_options(
	const struct reader *reader, json_t *node, const struct key *keys, enum meaning meaning)
{
	json_t *table = json_object_get(node, "table");
	int n = 0;

	for (; keys->name; keys++) {
		json_t *item = json_object_get(table, keys->name);
		const json_t *value = json_object_get(item, "value");
		const char *text = json_string_value(value);

		if (!item || keys->meaning != meaning)
			continue;
		if (!json_is_integer(value) && (!text || !*text || strpbrk(text, " \t\n\r")))
			return refuse_value(
				reader, item, keys->name, "is neither a word nor a number");
		if (text)
			fprintf(reader->out, " --%s=%s", keys->name, text);
		else
			fprintf(reader->out, " --%s=%" JSON_INTEGER_FORMAT, keys->name,
				json_integer_value(value));
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

static int write_server(const struct reader *reader, const char *name, json_t *node)
{
	json_t *namespaces, *item;
	char command[SERVER_NAME_MAX + 32];
	const char *inner;
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
	namespaces = json_object_get(json_object_get(node, "table"), "namespaces");
	json_object_foreach(json_object_get(namespaces, "table"), inner, item)
	{
		if (r == 0)
			r = write_namespace(reader, name, inner, item);
	}
	return r;
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

/* Features of the vendor's daemon that have no switch here. */
static int check_features(const struct reader *reader, json_t *features)
{
	json_t *table = json_object_get(features, "table"), *item;
	int r = features ? check_table(reader, features, "features", feature_keys) : 0;
	const char *name;

	json_object_foreach(table, name, item)
	{
		if (r == 0)
			r = check_table(reader, item, name, switch_keys);
	}
	return r;
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
		r = check_features(reader, json_object_get(top, "features"));
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
