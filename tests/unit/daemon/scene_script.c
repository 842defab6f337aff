/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The script of a scene: what each word does (scene.h).
 */

#include <ctype.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <cmocka.h>

#include "scene.h"
#include "scene_state.h"
#include "spec_hash.h"

#define EXCLUSIVE 3 /* CU_COMPUTEMODE_EXCLUSIVE_PROCESS */

/* ---- clients */

/* The namespace in whose directory the client connects. */
static uint32_t entry_of(const char *how)
{
	const struct group *group = NULL;
	char name[GROUP_NAME_MAX];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(how, "%"), how);
	if (*name == '/')
		group = groups_find(&scene.daemon->groups, name + 1);
	return group ? group->id : *name == '/' ? UINT32_MAX : 0;
}

/* The partition of the GPU that the client names. */
static void name_partition(struct frame_variable *variable, const char *how)
{
	const char *id = strchr(how, '%');

	variable->is_set = id != NULL;
	if (id)
		snprintf(variable->value, sizeof(variable->value), "GPU-01000000/%s", id + 1);
}

/* `how' is what follows the name: the program, the group or the namespace. */
static void say_hello(struct scene_client *client, const char *how)
{
	struct frame_hello hello = {0};

	frame_init(&hello, FRAME_HELLO, 0);
	hello.version = FRAME_VERSION;
	hello.spec_hash = SPEC_HASH;
	hello.program = *how == ':' || *how == '!' ? (uint32_t)atoi(how + 1) : 0;
	hello.is_isolated = *how == '!';
	hello.group.is_set = *how == '@';
	if (*how == '@')
		snprintf(hello.group.value, sizeof(hello.group.value), "%s", how + 1);
	name_partition(&hello.sm_partition, how);
	snprintf(hello.command, sizeof(hello.command), "%s", client->name);
	client->fd = scene_connect(client->pid, client->uid, entry_of(how), &hello, sizeof(hello));
	client->reader = scene_new_reader();
	if (client->fd < 0)
		client->fate = FATE_CLOSED;
}

static struct scene_client *add_client(char letter, unsigned number)
{
	struct scene_client *client = &scene.clients[scene.n_clients++];

	assert_true(scene.n_clients < CLIENTS_MAX);
	*client = (struct scene_client){.uid = scene_uid(letter), .fd = -EBADF};
	client->pid = FAKE_PID_FIRST + 500 + (pid_t)scene.n_clients;
	snprintf(client->name, sizeof(client->name), "%c%u", letter, number);
	return client;
}

static void arrive(const char *word)
{
	char *how;
	unsigned first = (unsigned)strtoul(word + 1, &how, 10), last = first;
	bool has_pid = word[strlen(word) - 1] != '~';
	pid_t pid = *how == '=' ? scene_client(how + 1)->pid : 0;

	if (strncmp(how, "..", 2) == 0)
		last = (unsigned)atoi(how + 3);
	else if (*how == '*')
		last = first + (unsigned)atoi(how + 1) - 1;
	for (unsigned number = first; number <= last; number++) {
		struct scene_client *client = add_client(word[0], number);

		if (!has_pid || pid > 0)
			client->pid = pid;
		if (*how == '*')
			pid = client->pid;
		say_hello(client, how);
	}
}

static void leave(struct scene_client *client)
{
	struct frame_client_note note = {.id = client->id};

	frame_init(&note, FRAME_CLIENT_GONE, 0);
	if (client->fate == FATE_SERVED)
		scene_send(scene_process(client->server)->link, &note, sizeof(note));
	else
		close(client->fd);
	if (client->fate != FATE_SERVED)
		client->fd = -EBADF;
	client->fate = FATE_LEFT;
	client->id = 0;
}

/* ---- servers */

static void be_server(unsigned i, uint64_t spec_hash)
{
	struct fake_server *process = scene_process(i);
	struct frame_server frame = {.version = FRAME_VERSION, .spec_hash = spec_hash, .build = 1};

	/* It would be told to end, and end, without end. */
	if (process->has_ended)
		fail_msg("server %u has ended", i + 1);
	scene_disconnect(i);
	scene_free_reader(&scene.servers[i].reader);
	scene.servers[i].reader = scene_new_reader();
	frame_init(&frame, FRAME_SERVER, 0);
	frame.uid = process->uid;
	frame.pid = (uint64_t)process->pid;
	process->link = scene_connect(process->pid, process->uid, 0, &frame, sizeof(frame));
}

static struct frame_device gpu_of(bool is_exclusive)
{
	struct frame_device device = {
		.n_devices = 1,
		.n_sms = 132,
		.sm_chunk = 8,
		.n_chunks = 16,
		.total_memory = (uint64_t)80 << 30,
		.uuid = {1},
	};

	frame_init(&device, FRAME_DEVICE, 0);
	device.compute_mode = is_exclusive ? EXCLUSIVE : 0;
	snprintf(device.name, sizeof(device.name), "GPU");
	snprintf(device.pci_bus_id, sizeof(device.pci_bus_id), "0000:01:00.0");
	return device;
}

static void report_gpu(unsigned i, bool is_exclusive)
{
	const struct frame_device device = gpu_of(is_exclusive);

	scene_send(scene_process(i)->link, &device, sizeof(device));
}

static void report_state(unsigned i, enum server_state to, uint64_t client)
{
	struct frame_server_state state = {.state = to, .client = client};

	frame_init(&state, FRAME_SERVER_STATE, 0);
	scene_send(scene_process(i)->link, &state, sizeof(state));
}

static void report_culprit(unsigned i, const struct scene_client *client)
{
	struct frame_fault fault = {.result = 700,
		.how = FAULT_ALONE,
		.ordinal = FAULT_DEVICE_UNKNOWN,
		.n_suspects = 1,
		.clients = {client->id},
		.result_name = "CUDA_ERROR_ILLEGAL_ADDRESS"};

	frame_init(&fault, FRAME_FAULT, 0);
	scene_send(scene_process(i)->link, &fault, sizeof(fault));
}

/* "A1:reason", or "A1:+" if the client goes on without its work */
static void report_lost(unsigned i, const char *what)
{
	const char *colon = strchr(what, ':');
	struct frame_fault_client frame = {0};
	char name[NAME_MAX_SIZE];

	snprintf(name, sizeof(name), "%.*s", (int)(colon - what), what);
	frame_init(&frame, FRAME_FAULT_CLIENT, 0);
	frame.client = scene_client(name)->id;
	frame.goes_on = strcmp(colon + 1, "+") == 0;
	snprintf(frame.why, sizeof(frame.why), "%s", frame.goes_on ? "" : colon + 1);
	for (char *c = frame.why; *c; c++) {
		if (*c == '_')
			*c = ' ';
		else if (*c == '^')
			*c = '\x1b';
	}
	scene_send(scene_process(i)->link, &frame, sizeof(frame));
}

/* False: the words say something else. */
static bool do_fault(unsigned i, const char *what)
{
	if (strcmp(what, "fault") == 0)
		report_state(i, SERVER_FAULT, 0);
	else if (strncmp(what, "fault=", 6) == 0)
		report_state(i, SERVER_FAULT, scene_client(what + 6)->id);
	else if (strncmp(what, "names=", 6) == 0)
		report_culprit(i, scene_client(what + 6));
	else if (strncmp(what, "gives=", 6) == 0)
		report_lost(i, what + 6);
	else
		return false;
	return true;
}

static void report_done(unsigned i, const struct scene_client *client)
{
	struct frame_terminate done = {.client = client->id};

	frame_init(&done, FRAME_TERMINATED, 0);
	scene_send(scene_process(i)->link, &done, sizeof(done));
}

static void report_suspension(unsigned i, const char *client, enum suspension state)
{
	const struct scene_client *one = scene_client(client);
	struct frame_suspend frame = {.client = one->id, .state = state, .number = one->number};

	frame_init(&frame, FRAME_SUSPENDED, 0);
	scene_send(scene_process(i)->link, &frame, sizeof(frame));
}

/* False: the words say something else. */
static bool do_suspension(unsigned i, const char *what)
{
	static const struct {
		const char *word;
		enum suspension state;
	} words[] = {
		{"rest=", SUSPENSION_AT_REST},
		{"blocked=", SUSPENSION_BLOCKED},
		{"begun=", SUSPENSION_BEGUN},
		{"resumed=", SUSPENSION_NONE},
	};

	for (size_t n = 0; n < ARRAY_SIZE(words); n++)
		if (strncmp(what, words[n].word, strlen(words[n].word)) == 0) {
			report_suspension(i, what + strlen(words[n].word), words[n].state);
			return true;
		}
	return false;
}

/* Whether the client is one of those that move from server `old' to its successor. */
static bool moves(const struct scene_client *client, unsigned i, unsigned old)
{
	return client->fate == FATE_SERVED && !client->stays &&
	       (client->server == old || client->server == i);
}

/* The successor has the connections, and has not said so. */
static void get_clients(unsigned i, unsigned old)
{
	for (unsigned n = 0; n < scene.n_clients; n++)
		if (moves(&scene.clients[n], i, old))
			scene.clients[n].server = i;
}

/* The successor has all clients of server `old'. */
static void report_move(unsigned i, unsigned old)
{
	struct frame_restarted done = {.is_done = 1};

	for (unsigned n = 0; n < scene.n_clients; n++) {
		struct scene_client *client = &scene.clients[n];
		struct frame_client_note note = {
			.id = client->id, .pid = (uint64_t)client->pid, .uid = client->uid};

		if (!moves(client, i, old))
			continue;
		client->server = i;
		frame_init(&note, FRAME_CLIENT_HERE, 0);
		scene_send(scene_process(i)->link, &note, sizeof(note));
	}
	frame_init(&done, FRAME_RESTARTED, 0);
	scene_send(scene_process(i)->link, &done, sizeof(done));
}

/* "=A1": because of that client. */
static void report_stay(unsigned i, const char *client)
{
	struct frame_restarted frame = {.text = "it has compressed memory"};

	frame_init(&frame, FRAME_RESTARTED, 0);
	if (*client)
		frame.pid = (uint64_t)scene_client(client + 1)->pid;
	scene_send(scene_process(i)->link, &frame, sizeof(frame));
}

/* False: the words say something else. */
static bool do_move(unsigned i, const char *what)
{
	if (strncmp(what, "has=S", 5) == 0)
		report_move(i, (unsigned)atoi(what + 5) - 1);
	else if (strncmp(what, "gets=S", 6) == 0)
		get_clients(i, (unsigned)atoi(what + 6) - 1);
	else if (strncmp(what, "keeps", 5) == 0)
		report_stay(i, what + 5);
	else if (strncmp(what, "drops=", 6) == 0)
		scene_client(what + 6)->stays = true;
	else
		return false;
	return true;
}

static void probe_answers(unsigned i, bool is_exclusive)
{
	const struct frame_device device = gpu_of(is_exclusive);

	assert_int_equal(write(scene_process(i)->output, &device, sizeof(device)), sizeof(device));
	scene_settle();
	scene_end_process(i, 0);
}

static void report_ready(unsigned i, bool is_exclusive)
{
	report_gpu(i, is_exclusive);
	report_state(i, SERVER_ACTIVE, 0);
}

static void do_as_server(unsigned i, const char *what)
{
	struct scene_server *server = &scene.servers[i];

	if (strcmp(what, "hello") == 0)
		be_server(i, SPEC_HASH);
	else if (strcmp(what, "other") == 0)
		be_server(i, ~SPEC_HASH);
	else if (strncmp(what, "mode", 4) == 0)
		report_ready(i, what[4]);
	else if (strncmp(what, "done=", 5) == 0)
		report_done(i, scene_client(what + 5));
	else if (strncmp(what, "print=", 6) == 0)
		dprintf(scene_process(i)->output, "%s\n", what + 6);
	else if (strcmp(what, "exit") == 0)
		scene_end_process(i, 0);
	else if (strcmp(what, "crash") == 0)
		scene_end_process(i, SIGSEGV);
	else if (strcmp(what, "nouser") == 0)
		scene_end_process(i, EX_NOUSER << 8);
	else if (strcmp(what, "lost") == 0)
		scene_disconnect(i);
	else if (strcmp(what, "sleep") == 0 || strcmp(what, "wake") == 0)
		server->is_asleep = what[0] == 's';
	else if (strcmp(what, "busy") == 0)
		server->is_busy = true;
	else if (strncmp(what, "gpu", 3) == 0)
		probe_answers(i, what[3]);
	else if (!do_fault(i, what) && !do_suspension(i, what) && !do_move(i, what))
		fail_msg("a server cannot do %s", what);
}

static void step_server(const char *word)
{
	char *rest;
	unsigned i = (unsigned)strtoul(word + 1, &rest, 10) - 1;

	(void)scene_process(i);
	if (rest[0] == '+') {
		be_server(i, SPEC_HASH);
		scene_settle();
		report_ready(i, rest[1] == 'x');
	} else {
		do_as_server(i, rest + 1);
	}
}

/* ---- commands */

static void add_command(char letter, const char *line)
{
	struct scene_command *command = &scene.commands[scene.n_commands];

	assert_true(scene.n_commands < COMMANDS_MAX);
	*command = (struct scene_command){.letter = letter};
	command->fd = scene_connect(FAKE_PID_FIRST + 400, scene_uid(letter), 0, line, strlen(line));
	command->is_silent = !strchr(line, '\n');
	if (command->fd < 0)
		command->answer = ANSWER_CLOSED;
	scene.n_commands++;
}

/* Appends the word, or the UID or PID that it stands for. */
static void add_word(char *line, size_t size, const char *word)
{
	size_t used = strlen(line);
	const struct scene_client *client = scene_find_client(word);

	line += used;
	size -= used;
	if (word[0] == 'S' && isdigit(word[1]))
		snprintf(line, size, "%d ", scene_process((unsigned)atoi(word + 1) - 1)->pid);
	else if (client)
		snprintf(line, size, "%d ", client->pid);
	else if (isalpha(word[0]) && !word[1])
		snprintf(line, size, "%u ", scene_uid(word[0]));
	else
		snprintf(line, size, "%s ", word);
}

/* "quit]", "quit]*3" */
static void give_command(char letter, const char *words)
{
	char copy[256], line[300] = "\x15\n", *rest = NULL;
	size_t length = strcspn(words, "]");
	int n = words[length + 1] == '*' ? atoi(words + length + 2) : 1;

	snprintf(copy, sizeof(copy), "%.*s", (int)length, words);
	for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		add_word(line, sizeof(line) - 4, word);
	strcat(line, "\n\x04\n");
	for (int i = 0; i < n; i++)
		add_command(letter, line);
}

static void hang_up_command(const char *which)
{
	unsigned i = *which ? (unsigned)atoi(which) : scene.n_commands;
	struct scene_command *command = &scene.commands[i - 1];

	assert_true(i >= 1 && i <= scene.n_commands);
	close(command->fd);
	command->fd = -EBADF;
	command->answer = ANSWER_CLOSED;
}

static void add_silent(char letter, const char *count)
{
	unsigned n = *count ? (unsigned)atoi(count) : 1;

	for (unsigned i = 0; i < n; i++)
		add_command(letter, "");
}

/* ---- the script */

static void step(const char *word)
{
	char *unit;
	unsigned long number = strtoul(word, &unit, 10);

	if (unit != word)
		scene_let_pass(number * (*unit == 's' ? 1000 : 1));
	else if (word[0] == '[' && word[1] == '-')
		hang_up_command(word + 2);
	else if (word[0] == '[')
		give_command('R', word + 1);
	else if (word[1] == '[')
		give_command(word[0], word + 2);
	else if (word[1] == '<')
		add_silent(word[0], word + 2);
	else if (word[1] == '"')
		add_command(word[0], word + 2);
	else if (word[0] == 'S')
		step_server(word);
	else if (word[strlen(word) - 1] == '-')
		leave(scene_client(strndupa(word, strlen(word) - 1)));
	else
		arrive(word);
	scene_settle();
}

/* The next word, which ends at a blank outside brackets; NULL: none. */
const char *scene_next_word(const char **script, char *word, size_t size)
{
	const char *from = *script + strspn(*script, " \t");
	size_t n = strcspn(from, " "), bracket = strcspn(from, "[");

	if (bracket < n && from[bracket + 1] != '-')
		n = strcspn(from, "]");
	n += strcspn(from + n, " ");
	assert_true(n < size);
	memcpy(word, from, n);
	word[n] = '\0';
	*script = from + n;
	return n > 0 ? word : NULL;
}

void scene_play(const char *script)
{
	char word[256];

	while (scene_next_word(&script, word, sizeof(word)))
		step(word);
}
