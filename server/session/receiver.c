/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The server's side of its receiver. Workers, one at a time.
 *
 * Invariant: a receiver that has ended, or does not reply, is never asked again. It is on the
 * list of ending receivers until the kernel has closed its descriptors.
 */

#include "receiver.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "frame.h"
#include "lock.h"

/* The receiver waits for a processor only. */
#define REPLY_MS 5000
#define STOP_MS 200

extern char **environ;

static struct {
	struct lock lock;
	const char *program;
	int sock; /* -EBADF: there is no receiver */
	pid_t pid;
	unsigned n_ending;
	struct {
		pid_t pid;
		uid_t account; /* of the client whose descriptor it received */
	} ending[RECEIVERS_ENDING_MAX];
} receiver = {.lock = LOCK_INIT(RECEIVER), .sock = -EBADF};

static int spawn_program(int sock, pid_t *ret_pid)
{
	char *argv[] = {"mps-receiver", RECEIVER_OPTION, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int r;

	sigemptyset(&none);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, sock, STDIN_FILENO);
	/* The daemon reads the server's output until no process has it. */
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
	/* The driver's descriptors, which may lack FD_CLOEXEC, keep memory of the GPU. */
	posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
	r = -posix_spawn(ret_pid, receiver.program, &actions, &attributes, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return r;
}

/* Under the lock, as all that follow. */
static int spawn_receiver(void)
{
	_cleanup_close_ int ours = -EBADF, theirs = -EBADF;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	r = spawn_program(theirs, &receiver.pid);
	if (r == 0)
		receiver.sock = TAKE_FD(ours);
	return r;
}

static void reap_ending(void)
{
	for (unsigned i = 0; i < receiver.n_ending;)
		if (waitpid(receiver.ending[i].pid, NULL, WNOHANG) == 0)
			i++;
		else
			receiver.ending[i] = receiver.ending[--receiver.n_ending];
}

static unsigned count_ending(uid_t account)
{
	unsigned n = 0;

	for (unsigned i = 0; i < receiver.n_ending; i++)
		n += receiver.ending[i].account == account;
	return n;
}

/* The receiver has a descriptor of `account' that may keep it from ending, or does not reply. */
static void retire(uid_t account)
{
	close(receiver.sock);
	receiver.sock = -EBADF;
	kill(receiver.pid, SIGKILL);
	receiver.ending[receiver.n_ending].pid = receiver.pid;
	receiver.ending[receiver.n_ending++].account = account;
}

/* -ESRCH: the receiver is not usable. */
static int exchange(int connection, size_t size, struct frame_reader *reader)
{
	const struct frame_received *reply = (const void *)reader->bytes;
	struct frame_receive request = {.size = size};

	frame_init(&request, FRAME_RECEIVE, 1);
	if (frame_send(receiver.sock, &request, &connection, REPLY_MS) < 0 ||
		frame_read_wait(reader, receiver.sock, REPLY_MS) < 0 ||
		reader->head.type != FRAME_RECEIVED)
		return -ESRCH;
	/* A result without bytes would let a worker ask again and again. */
	return reply->result > 0 || (reply->result == 0 && reply->n_bytes == 0) ? -ESRCH : 0;
}

static int ask(int connection, uid_t account, size_t size, struct frame_reader *reader)
{
	const struct frame_received *reply = (const void *)reader->bytes;
	int r = -ESRCH;

	/* The second time with a new receiver: somebody may have ended the first. */
	for (int n = 0; n < 2 && r == -ESRCH; n++) {
		reap_ending();
		if (count_ending(account) >= RECEIVERS_ENDING_MAX - receiver.n_ending)
			return -EDQUOT;
		r = receiver.sock < 0 ? spawn_receiver() : 0;
		if (r < 0)
			return r;
		frame_reader_reset(reader);
		r = exchange(connection, size, reader);
		if (r == -ESRCH)
			retire(account);
	}
	if (r == 0)
		r = reply->result;
	if (r == -EPERM || r == -EBADMSG || r == -EMFILE)
		retire(account);
	/* The next client need not wait for that. */
	if (receiver.sock < 0 && receiver.n_ending < RECEIVERS_ENDING_MAX)
		(void)spawn_receiver();
	return r;
}

int receiver_read(int connection, uid_t account, void *bytes, size_t size, enum fd_kind *ret_kind,
	int *ret_fd)
{
	_cleanup_(frame_reader_fini) struct frame_reader reader;
	const struct frame_received *reply = (const void *)reader.bytes;
	int r;

	frame_reader_init(&reader, frame_close_fd);
	if (size > sizeof(reply->bytes))
		return -EMSGSIZE;
	lock_take(&receiver.lock);
	r = ask(connection, account, size, &reader);
	lock_release(&receiver.lock);
	if (r < 0)
		return r;
	memcpy(bytes, reply->bytes, MIN(size, reply->n_bytes));
	*ret_kind = (enum fd_kind)reply->kind;
	*ret_fd = frame_take_fd(&reader, 0);
	return (int)MIN(size, reply->n_bytes);
}

int receiver_start(const char *program)
{
	lock_hold(&receiver.lock);

	receiver.program = program;
	return spawn_receiver();
}

void receiver_stop(void)
{
	const struct timespec pause = {0, 1000000};

	lock_hold(&receiver.lock);
	if (receiver.sock >= 0)
		retire(0);
	for (int ms = 0; ms < STOP_MS && receiver.n_ending > 0; ms++) {
		reap_ending();
		nanosleep(&pause, NULL);
	}
}
