/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The handshake. Runs in the thread that decides the route, or in the thread that
 * notices that the server ended before this program used a GPU.
 *
 * Invariant: nothing is sent before the listener has been checked.
 */

#include "handshake.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "bounds.h"
#include "clock.h"
#include "spec_hash.h"
#include "trust.h"
#include "client/util/descriptor.h"
#include "client/util/log.h"

/* The pause between two attempts, if the first attempt found a listener. */
#define RETRY_MS 20
#define RETRY_MAX_MS 1000
#define RETRIES_MAX 8

/* A socket without a listener: its daemon has died and may be restarted. */
#define RESTART_MS 3000

struct attempt {
	struct handshake *handshake;
	char path[SOCKET_PATH_MAX + 1];
	struct frame_hello hello;
	bool has_hello;
	uint64_t began_ms;
	bool has_met; /* an earlier attempt has reached a daemon */
};

static int left_ms(const struct attempt *attempt)
{
	uint64_t passed = now_ms() - attempt->began_ms;

	return passed < WELCOME_MS ? (int)(WELCOME_MS - passed) : 0;
}

_printf_(2, 3) static void say(struct attempt *attempt, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(attempt->handshake->why, attempt->handshake->why_size, format, args);
	va_end(args);
}

static bool write_path(struct attempt *attempt, const char *above, const char *folder)
{
	int n = snprintf(attempt->path, sizeof(attempt->path), "%s%s%s/control", above,
		*above ? "/" : "", folder);

	return n >= 0 && (size_t)n < sizeof(attempt->path);
}

/* Absolute if it fits: the program may change its working directory before it connects again. */
static int find_path(struct attempt *attempt)
{
	const char *folder = secure_getenv("CUDA_MPS_PIPE_DIRECTORY");
	_cleanup_free_ char *here = NULL;

	if (!folder || !*folder)
		folder = PIPE_DIRECTORY_DEFAULT;
	if (*folder != '/')
		here = getcwd(NULL, 0);
	if ((here && write_path(attempt, here, folder)) || write_path(attempt, "", folder))
		return 0;
	say(attempt,
		"CUDA_MPS_PIPE_DIRECTORY=%s is too long: with /control it may have at most %d "
		"bytes",
		folder, SOCKET_PATH_MAX);
	return HANDSHAKE_NO_DAEMON;
}

/* One attempt to connect. A full backlog (EAGAIN) means that a daemon exists and is busy. */
static int connect_once(struct attempt *attempt, const char *path, int *ret_sock)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int sock =
		descriptor_raise(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	struct handshake *handshake = attempt->handshake;
	int r = trust_path(path, handshake->why, handshake->why_size);

	if (r < 0)
		return HANDSHAKE_UNTRUSTED;
	if (sock < 0)
		return sock;
	memcpy(address.sun_path, path, strlen(path) + 1);
	if (connect(sock, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	r = trust_peer(sock, path, handshake->why, handshake->why_size);
	if (r < 0)
		return r == -EPERM ? HANDSHAKE_UNTRUSTED : r;
	*ret_sock = TAKE_FD(sock);
	return 0;
}

/* How long to retry for each error of connect() before giving up. */
static uint64_t patience_ms(const struct attempt *attempt, int r)
{
	switch (r) {
	case -EAGAIN:
	case -EINTR:
		return INTRODUCTION_MS;
	case -ECONNREFUSED:
		return RESTART_MS;
	case -ENOENT:
		return attempt->has_met ? RESTART_MS : 0;
	default:
		return 0;
	}
}

static bool is_without_daemon(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -ECONNREFUSED || r == -EPROTOTYPE;
}

/* "/a/b/control" becomes "/a/control"; false: there is no directory above. */
static bool move_up(char *path)
{
	char *end = strrchr(path, '/'), *slash;

	*end = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return false;
	memcpy(slash, "/control", sizeof("/control"));
	return true;
}

/*
 * Whether a daemon listens in one of the two directories above: then this directory is of a server
 * or a namespace that does not exist, and the program does not run natively by mistake.
 */
static bool is_below_daemon(struct attempt *attempt)
{
	char path[sizeof(attempt->path)];

	if (!secure_getenv("CUDA_MPS_PIPE_DIRECTORY"))
		return false;
	memcpy(path, attempt->path, sizeof(path));
	for (int i = 0; i < 2 && move_up(path); i++) {
		_cleanup_close_ int sock = -EBADF;
		int r = connect_once(attempt, path, &sock);

		if (r != 0 && r != -EAGAIN)
			continue;
		say(attempt,
			"no server and no namespace at %s, but a control daemon at %s: set "
			"CUDA_MPS_PIPE_DIRECTORY to a directory that mps-control server list or "
			"namespace list names",
			attempt->path, path);
		return true;
	}
	return false;
}

static int connect_daemon(struct attempt *attempt, int *ret_sock)
{
	uint64_t began = now_ms();
	bool was_logged = false;
	int r;

	while ((r = connect_once(attempt, attempt->path, ret_sock)) < 0) {
		if (now_ms() - began >= patience_ms(attempt, r))
			break;
		if (r == -ECONNREFUSED && !was_logged)
			log_info("the control daemon at %s has died: waiting up to %d s for a new "
				 "one",
				attempt->path, RESTART_MS / 1000);
		was_logged |= r == -ECONNREFUSED;
		poll(NULL, 0, RETRY_MS);
	}
	if (!is_without_daemon(r))
		return r == -EAGAIN || r == -EINTR ? -ETIMEDOUT : r;
	if (is_below_daemon(attempt))
		return -ENOENT;
	if (r == -ECONNREFUSED) {
		say(attempt,
			"the control daemon at %s has died, and no new one started within %d s",
			attempt->path, RESTART_MS / 1000);
		return HANDSHAKE_DAEMON_DIED;
	}
	say(attempt, "no control daemon at %s (%s)", attempt->path, strerror(-r));
	return HANDSHAKE_NO_DAEMON;
}

static int hello_variable(
	struct attempt *attempt, struct frame_variable *variable, const char *name)
{
	const char *value = secure_getenv(name);

	if (!value)
		return 0;
	if (strlen(value) >= sizeof(variable->value)) {
		say(attempt, "%s has %zu bytes; at most %zu are allowed", name, strlen(value),
			sizeof(variable->value) - 1);
		attempt->handshake->result = CUDA_ERROR_INVALID_VALUE;
		return -EINVAL;
	}
	variable->is_set = 1;
	memcpy(variable->value, value, strlen(value));
	return 0;
}

/*
 * The daemon delays programs that have caused GPU faults. A program that forges its
 * hash avoids only its own delay.
 */
static uint32_t program_hash(void)
{
	static const char *const files[] = {"/proc/self/comm", "/proc/self/cmdline"};
	uint32_t hash = 2166136261u;
	uint8_t bytes[512];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		_cleanup_close_ int fd = open(files[i], O_RDONLY | O_CLOEXEC);
		ssize_t n;

		while (fd >= 0 && (n = read(fd, bytes, sizeof(bytes))) > 0)
			for (ssize_t at = 0; at < n; at++)
				hash = (hash ^ bytes[at]) * 16777619u;
	}
	return hash;
}

/* The first argument of this program, which the control daemon shows in `ps'. */
static void read_command(char *command, size_t size)
{
	_cleanup_close_ int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, command, size - 1) : -1;
	size_t length = n > 0 ? strnlen(command, (size_t)n) : 0;

	memset(command + length, 0, size - length);
}

/* MPS_ISOLATE=1 asks for a separate server. */
static bool wants_isolation(void)
{
	const char *value = secure_getenv("MPS_ISOLATE");

	return value && *value && strcmp(value, "0") != 0;
}

/* MPS_ON_FAULT=continue: a GPU fault ends the work in flight, and not the program. */
static bool wants_to_continue(void)
{
	const char *value = secure_getenv("MPS_ON_FAULT");

	if (!value || !*value)
		return false;
	if (strcmp(value, "continue") == 0)
		return true;
	log_warn("MPS_ON_FAULT=%.64s is ignored: the value must be continue", value);
	return false;
}

static void check_priority(void)
{
	const char *value = secure_getenv("CUDA_MPS_CLIENT_PRIORITY");

	if (value && *value && (value[1] || *value < '0' || *value > '2'))
		log_warn("CUDA_MPS_CLIENT_PRIORITY=%.64s is ignored: the value must be 0 (normal), "
			 "1 (below normal) or 2 (background)",
			value);
}

/* Once: a process may send HELLO again. */
static int make_hello(struct attempt *attempt)
{
	struct frame_hello *hello = &attempt->hello;
	const struct {
		struct frame_variable *variable;
		const char *name;
	} variables[] = {
		{&hello->group, "MPS_GROUP"},
		{&hello->sm_partition, "CUDA_MPS_SM_PARTITION"},
		{&hello->client_priority, "CUDA_MPS_CLIENT_PRIORITY"},
	};

	if (attempt->has_hello)
		return 0;
	check_priority();
	frame_init(hello, FRAME_HELLO, 0);
	hello->version = FRAME_VERSION;
	hello->program = program_hash();
	hello->spec_hash = SPEC_HASH;
	hello->is_isolated = wants_isolation();
	hello->continues = wants_to_continue();
	read_command(hello->command, sizeof(hello->command));
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		int r = hello_variable(attempt, variables[i].variable, variables[i].name);

		if (r < 0)
			return r;
	}
	attempt->has_hello = true;
	return 0;
}

static int take_refused(struct attempt *attempt, const struct frame_refused *refused)
{
	if (refused->result == 0 || !frame_text_ok(refused->text, sizeof(refused->text)))
		return -EBADMSG;
	attempt->handshake->result = (CUresult)refused->result;
	say(attempt, "%s: %s", attempt->path, refused->text);
	return -ECONNREFUSED;
}

static int take_welcome(struct attempt *attempt, struct frame_reader *reader)
{
	const struct frame_welcome *welcome = (const void *)reader->bytes;

	if (reader->head.type == FRAME_REFUSED)
		return take_refused(attempt, (const void *)reader->bytes);
	if (reader->head.type != FRAME_WELCOME)
		return -EBADMSG;
	if (welcome->version != FRAME_VERSION || welcome->spec_hash != SPEC_HASH) {
		say(attempt,
			"%s: the server and this library are from different builds: restart the "
			"daemon, or use the library of its build",
			attempt->path);
		return -EPROTO;
	}
	log_info("connected to server PID %llu as session %u",
		(unsigned long long)welcome->server_pid, welcome->session);
	for (unsigned i = 0; i < FRAME_WELCOME_FDS; i++)
		attempt->handshake->fds[i] = frame_take_fd(reader, i);
	return 0;
}

/* Waits as long as the daemon confirms that this client is queued. */
static int handshake_wait_answer(struct attempt *attempt, struct frame_reader *reader, int sock)
{
	for (;;) {
		const struct frame_pending *pending = (const void *)reader->bytes;
		int r = frame_read_wait(reader, sock, left_ms(attempt));

		if (r < 0 || reader->head.type != FRAME_PENDING)
			return r;
		if (!frame_text_ok(pending->text, sizeof(pending->text)))
			return -EBADMSG;
		log_info("waiting for a server: %s", pending->text);
		attempt->began_ms = now_ms();
		frame_reader_reset(reader);
	}
}

static int attempt_once(struct attempt *attempt)
{
	_cleanup_(frame_reader_fini) struct frame_reader reader;
	_cleanup_close_ int sock = -EBADF;
	int r;

	frame_reader_init(&reader, frame_close_fd);
	attempt->handshake->why[0] = '\0';
	r = connect_daemon(attempt, &sock);
	if (r == 0)
		r = make_hello(attempt);
	attempt->handshake->continues = attempt->hello.continues;
	if (r == 0)
		r = frame_send(sock, &attempt->hello, NULL, INTRODUCTION_MS);
	if (r == 0)
		r = handshake_wait_answer(attempt, &reader, sock);
	if (r == 0)
		r = take_welcome(attempt, &reader);
	if (r == 0)
		attempt->handshake->sock = TAKE_FD(sock);
	return r;
}

/*
 * A daemon that dies and a server that ends close the connection; their successors
 * serve this client.
 */
static int attempt_again(struct attempt *attempt)
{
	int pause_ms = RETRY_MS;
	int r = attempt_once(attempt);

	for (int i = 0; i < RETRIES_MAX && (r == -ECONNRESET || r == -EPIPE); i++) {
		attempt->has_met = true;
		poll(NULL, 0, pause_ms);
		pause_ms = MIN(2 * pause_ms, RETRY_MAX_MS);
		r = attempt_once(attempt);
	}
	return r > 0 && attempt->has_met ? -ECONNREFUSED : r;
}

int handshake(struct handshake *handshake, bool must_be_there)
{
	/* The program may change its environment after the first time. */
	static struct attempt first;
	struct attempt attempt = must_be_there ? first : (struct attempt){0};
	int r = 0;

	attempt.handshake = handshake;
	attempt.began_ms = now_ms();
	attempt.has_met = must_be_there;
	handshake->sock = -EBADF;
	handshake->result = CUDA_ERROR_MPS_CONNECTION_FAILED;
	handshake->why[0] = '\0';
	if (!must_be_there)
		r = find_path(&attempt);
	if (r == 0)
		r = attempt_again(&attempt);
	if (!must_be_there)
		first = attempt;
	if (r < 0 && !handshake->why[0])
		say(&attempt, "%s: %s", attempt.path,
			r == -ECONNRESET || r == -EPIPE
				? "the daemon closed the connection; its control.log says why"
			: r == -ETIMEDOUT ? "no answer in time; control.log and server.log say more"
			: r == -EBADMSG
				? "the process that answers is not an MPS server of this build"
				: strerror(-r));
	return r;
}

void handshake_close_fds(struct handshake *handshake)
{
	for (unsigned i = 0; i < FRAME_WELCOME_FDS; i++)
		closep(&handshake->fds[i]);
}
