/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the peers of a scene's daemon do by themselves: they read what they are sent.
 */

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "scene_state.h"
#include "daemon/conn/conn.h"

struct scene scene = {.log_directory = "/tmp/mps-scene-XXXXXX"};

/* ---- names */

uid_t scene_uid(char letter)
{
	if (letter == 'R')
		return 0;
	if (letter == 'N')
		return NOBODY;
	return islower(letter) ? 100000 + (uid_t)(letter - 'a') : 1000 + (uid_t)(letter - 'A');
}

char scene_letter(uid_t uid)
{
	if (uid == 0)
		return 'R';
	if (uid == NOBODY)
		return 'N';
	return (char)(uid >= 100000 ? 'a' + (uid - 100000) : 'A' + (uid - 1000));
}

struct scene_client *scene_find_client(const char *name)
{
	for (unsigned i = scene.n_clients; i-- > 0;)
		if (strcmp(scene.clients[i].name, name) == 0)
			return &scene.clients[i];
	return NULL;
}

struct scene_client *scene_client(const char *name)
{
	struct scene_client *client = scene_find_client(name);

	if (!client)
		fail_msg("there is no client %s", name);
	return client;
}

struct fake_server *scene_process(unsigned i)
{
	if (i >= fake_system.n_servers)
		fail_msg("there is no server %u", i + 1);
	return &fake_system.servers[i];
}

static void add_text(const char *text)
{
	size_t used = strlen(scene.texts);

	snprintf(scene.texts + used, sizeof(scene.texts) - used, "%s\n", text);
}

struct frame_reader *scene_new_reader(void)
{
	struct frame_reader *reader = malloc(sizeof(*reader));

	assert_non_null(reader);
	frame_reader_init(reader, frame_close_fd);
	return reader;
}

void scene_free_reader(struct frame_reader **reader)
{
	if (*reader)
		frame_reader_fini(*reader);
	free(*reader);
	*reader = NULL;
}

/* ---- peers */

void scene_send(int fd, const void *bytes, size_t size)
{
	(void)!send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The peer's end of a new connection with its first bytes; negative: the daemon accepts none. */
int scene_connect(pid_t pid, uid_t uid, uint32_t entry, const void *bytes, size_t size)
{
	int ends[2];

	if (scene.daemon->is_over)
		return -ENOENT;
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
	fake_system_set_cred(ends[1], pid, uid);
	if (size > 0)
		scene_send(ends[0], bytes, size);
	conn_accept(scene.daemon, ends[1], entry);
	return ends[0];
}

static void note_refusal(struct scene_client *client, const struct frame_refused *refused)
{
	client->fate = FATE_REFUSED;
	client->result = refused->result;
	add_text(refused->text);
}

static void note_pending(struct scene_client *client, const struct frame_pending *pending)
{
	client->fate = strstr(pending->text, "exclusive use") ? FATE_TURN : FATE_WAITS;
	add_text(pending->text);
}

/* What the daemon has sent to the client. */
static void read_client(struct scene_client *client)
{
	while (client->fate <= FATE_TURN) {
		int r = frame_read(client->reader, client->fd);

		if (r == 0)
			return;
		if (r < 0)
			client->fate = FATE_CLOSED;
		else if (client->reader->head.type == FRAME_REFUSED)
			note_refusal(client, (const void *)client->reader->bytes);
		else if (client->reader->head.type == FRAME_PENDING)
			note_pending(client, (const void *)client->reader->bytes);
		frame_reader_reset(client->reader);
	}
}

static void take_client(unsigned i, const struct frame_client *frame)
{
	struct scene_client *client = scene_client(frame->hello.command);

	client->fate = FATE_SERVED;
	client->server = i;
	client->id = frame->id;
	client->limits = frame->limits;
}

static void take_terminate(const struct frame_terminate *frame)
{
	for (unsigned i = 0; i < scene.n_clients; i++)
		if (scene.clients[i].id == frame->client)
			scene.clients[i].is_asked = true;
}

static void take_suspend(const struct frame_suspend *frame)
{
	for (unsigned i = 0; i < scene.n_clients; i++)
		if (scene.clients[i].id == frame->client) {
			scene.clients[i].is_held = frame->state != SUSPENSION_NONE;
			scene.clients[i].number = frame->number;
		}
}

static void take_frame(unsigned i, const void *bytes)
{
	struct scene_server *server = &scene.servers[i];
	const struct frame_head *head = bytes;

	if (head->type == FRAME_CLIENT)
		take_client(i, bytes);
	else if (head->type == FRAME_TERMINATE)
		take_terminate(bytes);
	else if (head->type == FRAME_SUSPEND)
		take_suspend(bytes);
	else if (head->type == FRAME_GROUP)
		memcpy(&scene.group, bytes, sizeof(scene.group));
	else if (head->type == FRAME_SHUTDOWN) {
		server->is_told = true;
		server->is_forced |= ((const struct frame_shutdown *)bytes)->force;
	}
}

static bool serves(unsigned i)
{
	for (unsigned n = 0; n < scene.n_clients; n++)
		if (scene.clients[n].fate == FATE_SERVED && scene.clients[n].server == i)
			return true;
	return false;
}

void scene_disconnect(unsigned i)
{
	closep(&fake_system.servers[i].link);
	fake_system.servers[i].link = -EBADF;
}

/* The process has ended, and its connections with it. */
static void note_end(unsigned i)
{
	for (unsigned n = 0; n < scene.n_clients; n++)
		if (scene.clients[n].fate == FATE_SERVED && scene.clients[n].server == i)
			scene.clients[n].fate = FATE_CLOSED;
}

void scene_end_process(unsigned i, int status)
{
	fake_server_end(&fake_system.servers[i], status);
	note_end(i);
}

/*
 * A server reads its frames, and ends when it was asked to and has no clients. Whether it did
 * anything.
 */
static bool run_server(unsigned i)
{
	const struct fake_server *process = &fake_system.servers[i];
	struct scene_server *server = &scene.servers[i];
	bool has_read = false;

	if (process->has_ended)
		note_end(i);
	if (process->link < 0 || server->is_asleep)
		return false;
	while (frame_read(server->reader, process->link) > 0) {
		take_frame(i, server->reader->bytes);
		frame_reader_reset(server->reader);
		has_read = true;
	}
	if (server->is_told && !server->is_busy && (server->is_forced || !serves(i))) {
		scene_end_process(i, 0);
		return true;
	}
	return has_read;
}

/* Replies are lines; a command that is done is followed by a mark. */
static void read_command(struct scene_command *command)
{
	ssize_t n;

	if (command->fd < 0)
		return;
	n = recv(command->fd, command->text + command->size,
		sizeof(command->text) - 1 - command->size, MSG_DONTWAIT);
	if (n > 0)
		command->size += (size_t)n;
	command->text[command->size] = '\0';
	if (n == 0 || (n < 0 && errno != EAGAIN))
		command->answer = ANSWER_CLOSED;
	if (strchr(command->text, 0x04))
		command->answer = strchr(command->text, 0x15) ? ANSWER_FAILED : ANSWER_DONE;
}

/* Lets the daemon and its servers do what they can; the daemon looks a little later what was read.
 */
void scene_settle(void)
{
	for (bool is_busy = true; is_busy; fake_system.now_ms += is_busy) {
		is_busy = false;
		for (int turn = 0; turn < 3; turn++)
			daemon_turn(scene.daemon, UV_RUN_NOWAIT);
		for (unsigned i = 0; i < fake_system.n_servers; i++)
			is_busy |= run_server(i);
	}
	for (unsigned i = 0; i < scene.n_clients; i++)
		read_client(&scene.clients[i]);
	for (unsigned i = 0; i < scene.n_commands; i++)
		read_command(&scene.commands[i]);
}

/* In steps, so that a timer that follows from another one fires in its time. */
void scene_let_pass(uint64_t ms)
{
	uint64_t step = MAX(ms / 200, 25);

	while (ms > 0) {
		uint64_t now = MIN(ms, step);

		fake_system.now_ms += now;
		ms -= now;
		scene_settle();
	}
}
