/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The daemon over a simulated system, for tables of rules (scene.h).
 */

#include "scene.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "rows.h"
#include "scene_state.h"
#include "daemon/config/config_file.h"
#include "daemon/state/partitions.h"
#include "daemon/conn/listener.h"
#include "daemon/watch/faults.h"
#include "daemon/command/config_apply.h"

/* How long a daemon may take to quit with servers that ignore all signals but SIGKILL. */
#define QUIT_MS 60000

/* ---- the daemon */

static int new_file(const char *name, const char *text)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

static const char *log_path(const char *name)
{
	static char path[64];

	snprintf(path, sizeof(path), "%s/%s.log", scene.log_directory, name);
	return path;
}

static void remove_logs(void)
{
	unlink(log_path("control"));
	unlink(log_path("server"));
	rmdir(scene.log_directory);
}

static void open_logs(struct daemon *daemon)
{
	const struct log_options options = {.directory = scene.log_directory};
	struct error_message error;

	if (log_files_open(&daemon->logs, &options, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(truncate(log_path("control"), 0), 0);
}

/* Once for all rows. */
static void open_files(void)
{
	const struct sockaddr any_name = {.sa_family = AF_UNIX};
	struct rlimit limit;
	char path[64];

	if (scene.listening > 0)
		return;
	clearenv();
	assert_non_null(mkdtemp(scene.log_directory));
	atexit(remove_logs);
	scene.listening = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", new_file("subuid", "1000:100000:65536\n"));
	setenv("MPS_SUBUID_FILE", path, 1);
	setenv("MPS_KERNEL_LOG", "/dev/null", 1);
	assert_true(scene.listening >= 0);
	assert_int_equal(bind(scene.listening, &any_name, sizeof(any_name.sa_family)), 0);
	assert_int_equal(listen(scene.listening, 1), 0);
	signal(SIGPIPE, SIG_IGN);
	/* For two ends of each connection; fake_system.c has room for as many. */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = MIN(limit.rlim_max, 4096);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

void scene_set_variable(const char *name, const char *value)
{
	open_files();
	assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

static char file_path[64];
static int file_fd = -1;

void scene_set_file(const char *text)
{
	if (file_fd < 0) {
		file_fd = memfd_create("mps.conf", MFD_CLOEXEC);
		assert_true(file_fd >= 0 && fchmod(file_fd, 0600) == 0);
	}
	file_path[0] = '\0';
	if (text)
		snprintf(file_path, sizeof(file_path), "/proc/self/fd/%d", file_fd);
	assert_int_equal(ftruncate(file_fd, 0), 0);
	if (text)
		assert_int_equal(pwrite(file_fd, text, strlen(text), 0), strlen(text));
}

size_t scene_file_length(const char *text)
{
	size_t length = strlen(file_path);

	return length > 0 && strncmp(text, file_path, length) == 0 ? length : 0;
}

static void fail_on_line(_unused_ void *arg, const char *line)
{
	fail_msg("%s", line);
}

static void load_config(struct daemon *daemon)
{
	static const struct config_report report = {fail_on_line, NULL};
	struct error_message error;

	if (file_path[0]) {
		assert_int_equal(config_file_init(&daemon->config_file, file_path, &error), 0);
		assert_int_equal(config_file_read(&daemon->config_file, &report), 0);
	}
	if (config_load(&daemon->config, &daemon->config_file.values, &error) < 0 ||
		settings_load(&daemon->environment, &error) < 0)
		fail_msg("%s", error.text);
	daemon->config.uid = 0;
	daemon->config.server_uid = NOBODY;
}

static void start_daemon(struct daemon *daemon)
{
	static struct listener listener;
	struct error_message error;

	open_logs(daemon);
	listener =
		(struct listener){.directory = -EBADF, .lock = -EBADF, .fd = dup(scene.listening)};
	daemon->listener = &listener;
	assert_int_equal(daemon_start(daemon, &error), 0);
	if (scene.conns_max > 0)
		daemon->guest_conns_max = scene.conns_max;
	config_apply_first(daemon);
}

/* Whether the word says what daemon it is. */
static bool configure(struct config *config, const char *word)
{
	const char *value = strchr(word, '=');
	unsigned number = value ? (unsigned)atoi(value + 1) : 0;

	if (strchr(word, '[') || strchr(word, ':'))
		return false;
	if (strcmp(word, "user") == 0)
		config->uid = scene_uid('A');
	else if (strcmp(word, "multi") == 0)
		config->is_multiuser = true;
	else if (strncmp(word, "max=", 4) == 0)
		config->servers_max = number;
	else if (strncmp(word, "idle=", 5) == 0)
		config->idle_s = number;
	else if (strncmp(word, "conns=", 6) == 0)
		scene.conns_max = number;
	else if (strncmp(word, "adopt=", 6) == 0)
		fake_system_record(scene_uid(word[6]));
	else if (strcmp(word, "spare") == 0)
		config->keeps_spares = true;
	else if (strcmp(word, "move") == 0)
		config->moves_on_upgrade = true;
	else if (strncmp(word, "build=", 6) == 0)
		fake_system.build = number;
	else if (strncmp(word, "nofork=", 7) == 0)
		fake_system.spawn_failures |= 1u << (number - 1);
	else if (strncmp(word, "deaf=", 5) == 0)
		fake_system.deaf |= 1u << (number - 1);
	else
		return false;
	return true;
}

void scene_begin(const char *script)
{
	const char *rest = script;
	char word[256];

	open_files();
	fake_system_reset();
	scene.daemon = calloc(1, sizeof(*scene.daemon));
	assert_non_null(scene.daemon);
	scene.n_clients = scene.n_commands = scene.conns_max = 0;
	scene.texts[0] = '\0';
	for (unsigned i = 0; i < FAKE_SERVERS_MAX; i++)
		scene.servers[i] = (struct scene_server){0};
	load_config(scene.daemon);
	while (scene_next_word(&rest, word, sizeof(word)) && configure(&scene.daemon->config, word))
		script = rest;
	start_daemon(scene.daemon);
	scene_play(script);
}

static void close_peers(void)
{
	for (unsigned i = 0; i < scene.n_clients; i++) {
		if (scene.clients[i].fd >= 0)
			close(scene.clients[i].fd);
		scene_free_reader(&scene.clients[i].reader);
	}
	for (unsigned i = 0; i < scene.n_commands; i++)
		if (scene.commands[i].fd >= 0)
			close(scene.commands[i].fd);
	for (unsigned i = 0; i < fake_system.n_servers; i++)
		scene_disconnect(i);
	for (unsigned i = 0; i < FAKE_SERVERS_MAX; i++)
		scene_free_reader(&scene.servers[i].reader);
	scene.n_clients = scene.n_commands = 0;
}

/* Whatever a row has done, the daemon quits in its time, and has nothing left then. */
void scene_end(void)
{
	struct daemon *daemon = scene.daemon;

	close_peers();
	scene_settle();
	daemon_want_quit(daemon, 0);
	for (unsigned ms = 0; ms < QUIT_MS && uv_loop_alive(&daemon->loop); ms += 500) {
		fake_system.now_ms += 500;
		daemon_turn(daemon, UV_RUN_NOWAIT);
	}
	assert_int_equal(uv_loop_close(&daemon->loop), 0);
	assert_int_equal(daemon->n_servers + daemon->n_sessions + daemon->n_tenants, 0);
	faults_fini(&daemon->faults);
	devices_fini(&daemon->devices);
	groups_fini(&daemon->groups);
	usages_fini(&daemon->usages);
	accounts_fini(&daemon->accounts);
	partitions_free(&daemon->partitions);
	config_file_fini(&daemon->config_file);
	log_files_close(&daemon->logs);
	free(daemon);
	scene.daemon = NULL;
}

/* ---- rows */

static void test_row(void **state)
{
	const struct scene_row *row = *state;

	scene_begin(row->script);
	if (strcmp(scene_verdict(), row->verdict) != 0)
		fail_msg("\"%s\" leads to\n\t\"%s\", not to\n\t\"%s\"", row->script,
			scene_verdict(), row->verdict);
	if (row->says && scene_count_said(row->says) == 0)
		fail_msg("\"%s\" does not say \"%s\"; %s", row->script, row->says, scene.texts);
	scene_end();
}

int scene_run_rows(const char *noun, const struct scene_row *rows, size_t n)
{
	return rows_run(noun, test_row, rows, sizeof(*rows), n);
}
