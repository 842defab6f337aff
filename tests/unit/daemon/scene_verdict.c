/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a scene has led to, as text (scene.h).
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "scene.h"
#include "scene_state.h"
#include "daemon/server/server.h"

static char verdict[4096];

static _printf_(1, 2) void add(const char *format, ...)
{
	size_t used = strlen(verdict);
	va_list args;

	va_start(args, format);
	vsnprintf(verdict + used, sizeof(verdict) - used, format, args);
	va_end(args);
}

/* Whether the clients are to be listed together: "A1..A9". */
static bool is_next(const struct scene_client *one, const struct scene_client *other)
{
	return one->name[0] == other->name[0] && atoi(one->name + 1) + 1 == atoi(other->name + 1);
}

/* Lists the clients in [0, n); more than two that follow each other are a range. */
static void add_clients(const struct scene_client *const *clients, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		unsigned last = i;

		while (last + 1 < n && is_next(clients[last], clients[last + 1]))
			last++;
		add(" %s", clients[i]->name);
		if (last > i + 1) {
			add("..%s", clients[last]->name);
			i = last;
		}
	}
}

static bool is_of(const struct scene_client *client, enum fate fate, unsigned which)
{
	if (client->fate != fate)
		return false;
	return fate == FATE_SERVED ? client->server == which
				   : fate != FATE_REFUSED || client->result == which;
}

static bool is_any(const struct scene_client *client)
{
	(void)client;
	return true;
}

static bool is_asked(const struct scene_client *client)
{
	return client->is_asked;
}

static bool is_held(const struct scene_client *client)
{
	return client->is_held;
}

static unsigned collect(enum fate fate, unsigned which,
	bool (*is_wanted)(const struct scene_client *), const struct scene_client **clients)
{
	unsigned n = 0;

	for (unsigned i = 0; i < scene.n_clients; i++) {
		const struct scene_client *client = &scene.clients[i];

		if (is_of(client, fate, which) && is_wanted(client))
			clients[n++] = client;
	}
	return n;
}

static void separate(void)
{
	if (verdict[0])
		add("; ");
}

static const char *state_text(const struct server *server)
{
	static const char *const texts[] = {
		[SERVER_INITIALIZING] = " starting",
		[SERVER_ACTIVE] = "",
		[SERVER_FAULT] = " faulty",
		[SERVER_STOPPING] = " stopping",
	};

	return texts[server->state];
}

/* A server without clients; else NULL. */
static const struct server *lone_server(unsigned i)
{
	static const struct scene_client *clients[CLIENTS_MAX];

	if (i >= fake_system.n_servers || collect(FATE_SERVED, i, is_any, clients) > 0)
		return NULL;
	return server_find(scene.daemon, fake_system.servers[i].pid);
}

/* The last of servers that can be listed together: "S1..S9". */
static unsigned last_of_range(unsigned i)
{
	const struct server *first = lone_server(i), *next;

	while (first && (next = lone_server(i + 1)) && next->state == first->state)
		i++;
	return i;
}

static void add_server_clients(unsigned i)
{
	static const struct scene_client *clients[CLIENTS_MAX];
	unsigned n = collect(FATE_SERVED, i, is_any, clients);

	add(n > 0 ? ":" : "");
	add_clients(clients, n);
	n = collect(FATE_SERVED, i, is_asked, clients);
	add(n > 0 ? ", ending" : "");
	add_clients(clients, n);
	n = collect(FATE_SERVED, i, is_held, clients);
	add(n > 0 ? ", held" : "");
	add_clients(clients, n);
}

/* Returns the last server that the line is about. */
static unsigned add_server(unsigned i)
{
	const struct fake_server *process = &fake_system.servers[i];
	const struct server *server = server_find(scene.daemon, process->pid);
	unsigned last = last_of_range(i);

	if (process->has_ended && !server)
		return i;
	separate();
	if (last > i + 2) {
		add("S%u..S%u%s", i + 1, last + 1, state_text(server));
		return last;
	}
	if (server && server->is_spare)
		add("S%u spare%s", i + 1, state_text(server));
	else if (server)
		add("S%u of %c%s", i + 1, scene_letter(process->uid), state_text(server));
	else
		add("S%u probes", i + 1);
	add_server_clients(i);
	return i;
}

static void add_fate(enum fate fate, unsigned result, const char *text)
{
	static const struct scene_client *clients[CLIENTS_MAX];
	unsigned n = collect(fate, result, is_any, clients);

	if (n == 0)
		return;
	separate();
	add(text, result);
	add_clients(clients, n);
}

static void add_count(unsigned n)
{
	if (n > 1)
		add("*%u", n);
}

static void add_commands(void)
{
	static const char *const texts[] = {
		[ANSWER_NONE] = "[waits]",
		[ANSWER_DONE] = "[done]",
		[ANSWER_FAILED] = "[failed]",
		[ANSWER_CLOSED] = "[closed]",
	};
	unsigned n = 0;

	for (unsigned i = 0; i < scene.n_commands; i++) {
		const struct scene_command *command = &scene.commands[i], *next = command + 1;

		if (command->is_silent)
			continue;
		n++;
		if (i + 1 < scene.n_commands && next->answer == command->answer && !next->is_silent)
			continue;
		separate();
		add("%s", texts[command->answer]);
		add_count(n);
		n = 0;
	}
}

static void add_silent_conns(void)
{
	unsigned n_of[128] = {0}, n = 0;

	for (unsigned i = 0; i < scene.n_commands; i++) {
		const struct scene_command *command = &scene.commands[i];
		bool is_open = command->is_silent && command->answer != ANSWER_CLOSED;

		n_of[(unsigned char)command->letter] += is_open;
		n += is_open;
	}
	if (n == 0)
		return;
	separate();
	add("silent");
	for (unsigned letter = 0; letter < ARRAY_SIZE(n_of); letter++)
		if (n_of[letter] > 0) {
			add(" %c", letter);
			add_count(n_of[letter]);
		}
}

const char *scene_verdict(void)
{
	static const unsigned results[] = {800, 801, 802, 803, 804, 805, 806, 807, 808, 809};

	verdict[0] = '\0';
	for (unsigned i = 0; i < fake_system.n_servers; i++)
		i = add_server(i);
	add_fate(FATE_WAITS, 0, "waiting");
	add_fate(FATE_TURN, 0, "turn");
	for (size_t i = 0; i < ARRAY_SIZE(results); i++)
		add_fate(FATE_REFUSED, results[i], "refused %u");
	add_fate(FATE_CLOSED, 0, "closed");
	add_commands();
	add_silent_conns();
	return verdict;
}

const char *scene_reply(void)
{
	static char text[4096];
	size_t n = 0;

	if (scene.n_commands == 0)
		return "";
	for (const char *at = scene.commands[scene.n_commands - 1].text; *at; at++)
		if (*at != 0x04 && *at != 0x15 && *at != 0x16)
			text[n++] = *at;
	text[n] = '\0';
	return text;
}

const struct frame_limits *scene_limits(const char *name)
{
	if (name[0] != '@')
		return &scene_client(name)->limits;
	assert_string_equal(scene.group.name, name + 1);
	return &scene.group.limits;
}

struct daemon *scene_daemon(void)
{
	return scene.daemon;
}

static unsigned count_in(const char *text, const char *part)
{
	unsigned n = 0;

	while ((text = strstr(text, part))) {
		text += strlen(part);
		n++;
	}
	return n;
}

unsigned scene_count_said(const char *text)
{
	static char log[1 << 20];
	_cleanup_close_ int fd = openat(scene.daemon->logs.directory, "control.log", O_RDONLY);
	ssize_t size = read(fd, log, sizeof(log) - 1);
	unsigned n;

	assert_true(size >= 0);
	log[size] = '\0';
	n = count_in(log, text) + count_in(scene.texts, text);
	for (unsigned i = 0; i < scene.n_commands; i++)
		n += count_in(scene.commands[i].text, text);
	return n;
}
