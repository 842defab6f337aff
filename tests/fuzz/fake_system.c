/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A system for the daemon, in one process: replaces daemon/server/spawn.c, process.c
 * and record.c, proto/async_close.c, and of libc the clock,
 * getsockopt(SO_PEERCRED), waitpid() and waitid().
 */

#include "fake_system.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "async_close.h"
#include "../../daemon/conn/endpoint.h"
#include "../../daemon/server/spawn.h"
#include "../../daemon/state/record.h"
#include "../../daemon/text/process.h"

#define FDS_MAX 4096

struct fake_system fake_system;

static struct ucred creds[FDS_MAX];

/* ---- servers */

static void close_server(struct fake_server *server)
{
	closep(&server->end_fd);
	closep(&server->output);
	closep(&server->link);
	server->end_fd = server->output = server->link = -EBADF;
}

void fake_system_reset(void)
{
	for (unsigned i = 0; i < fake_system.n_servers; i++)
		close_server(&fake_system.servers[i]);
	/* Time continues, so that libuv's timestamps are never in the future. */
	fake_system = (struct fake_system){.now_ms = fake_system.now_ms + 1000000};
}

static struct fake_server *add_server(uid_t uid)
{
	struct fake_server *server = &fake_system.servers[fake_system.n_servers];

	*server = (struct fake_server){
		.pid = FAKE_PID_FIRST + (pid_t)fake_system.n_servers,
		.uid = uid,
		.end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
		.output = -EBADF,
		.link = -EBADF,
	};
	if (server->end_fd < 0)
		abort();
	fake_system.n_servers++;
	return server;
}

static struct fake_server *find_server(pid_t pid)
{
	unsigned i = (unsigned)(pid - FAKE_PID_FIRST);

	return pid >= FAKE_PID_FIRST && i < fake_system.n_servers ? &fake_system.servers[i] : NULL;
}

void fake_server_end(struct fake_server *server, int status)
{
	const uint64_t one = 1;

	if (server->has_ended)
		return;
	server->has_ended = 1;
	server->status = status;
	closep(&server->output);
	closep(&server->link);
	server->output = server->link = -EBADF;
	if (write(server->end_fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

static int add_spawned_server(uid_t uid, struct spawned *ret, struct error_message *error)
{
	struct fake_server *server;
	int pair[2];

	if (fake_system.n_servers == FAKE_SERVERS_MAX ||
		fake_system.spawn_failures >> fake_system.n_servers % 32 & 1)
		return error_message_set(error, -EAGAIN, "Cannot fork mps-server");
	if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
		abort();
	server = add_server(uid);
	server->output = pair[1];
	*ret = (struct spawned){
		.pid = server->pid, .pidfd = dup(server->end_fd), .output = pair[0]};
	return 0;
}

/* A daemon that dies would leave the server before this one unknown to the next daemon. */
static void must_be_recorded(void)
{
	const struct fake_server *last = fake_system.unrecorded;

	if (last && !last->has_ended) {
		fprintf(stderr, "server %d is not in the record when the next one starts\n",
			last->pid);
		abort();
	}
}

int spawn_server(_unused_ const struct config *config, uid_t uid, _unused_ const gid_t *gid,
	_unused_ const char *devices, _unused_ bool is_successor, struct spawned *ret,
	struct error_message *error)
{
	int r;

	must_be_recorded();
	r = add_spawned_server(uid, ret, error);
	if (r == 0)
		fake_system.unrecorded = find_server(ret->pid);
	return r;
}

uint64_t spawn_server_build(void)
{
	return fake_system.build;
}

int spawn_probe(const struct config *config, struct spawned *ret, struct error_message *error)
{
	return add_spawned_server(config->uid, ret, error);
}

/* ---- sockets of namespaces: clients of tests arrive without */

int endpoint_open(_unused_ struct daemon *daemon, _unused_ const char *server,
	_unused_ const char *name, _unused_ uint32_t entry, struct endpoint **ret_endpoint,
	_unused_ struct error_message *error)
{
	*ret_endpoint = NULL;
	return 0;
}

void endpoint_close(_unused_ struct endpoint *endpoint, _unused_ bool is_forgotten)
{
}

void endpoints_remove_stale(_unused_ struct daemon *daemon)
{
}

/* ---- processes */

int process_open(pid_t pid)
{
	const struct fake_server *server = find_server(pid);

	return server && !server->has_ended ? dup(server->end_fd) : -ESRCH;
}

int process_open_peer(int sock)
{
	return fcntl(sock, F_DUPFD_CLOEXEC, 3);
}

bool process_is_alive(_unused_ int pidfd)
{
	return true;
}

int process_namespace_owner(_unused_ int pidfd, pid_t pid, uid_t *ret_uid)
{
	/* Root, guests, subordinate UIDs, the overflow UID; UINT32_MAX: the process has ended. */
	static const uid_t owners[FAKE_OWNERS] = {
		0, 1000, 1001, 1002, 100003, 165535, 65534, UINT32_MAX};
	uid_t owner = pid < FAKE_PID_NESTED ? 0 : owners[(pid - FAKE_PID_NESTED) % FAKE_OWNERS];

	if (owner == UINT32_MAX)
		return -ESRCH;
	*ret_uid = owner;
	return 0;
}

int process_check(int pidfd, pid_t pid, uid_t uid)
{
	const struct fake_server *server = find_server(pid);

	(void)pidfd;
	if (!server)
		return -ESRCH;
	return server->uid == uid ? 0 : -EPERM;
}

bool process_is_of_others(pid_t pid, _unused_ uid_t uid)
{
	return pid % 2;
}

int process_start_time(pid_t pid, uint64_t *ret_ticks)
{
	*ret_ticks = (uint64_t)pid;
	return find_server(pid) ? 0 : -ESRCH;
}

static struct fake_server *server_of_pidfd(int pidfd)
{
	struct fake_server *found = NULL;

	/*
	 * An eventfd has no name, and its count is 1 only after the end, so the descriptors are
	 * compared.
	 */
	for (unsigned i = 0; i < fake_system.n_servers && !found; i++) {
		struct fake_server *server = &fake_system.servers[i];

		if (syscall(SYS_kcmp, getpid(), getpid(), 0, pidfd, server->end_fd) == 0)
			found = server;
	}
	return found;
}

int process_signal(int pidfd, int number)
{
	struct fake_server *server = server_of_pidfd(pidfd);

	if (!server || server->has_ended)
		return -ESRCH;
	if (number == SIGKILL ||
		!(fake_system.deaf >> (unsigned)(server->pid - FAKE_PID_FIRST) % 32 & 1))
		fake_server_end(server, number);
	return 0;
}

pid_t waitpid(pid_t pid, int *status, int options)
{
	const struct fake_server *server = find_server(pid);

	if (!server)
		return (pid_t)syscall(SYS_wait4, pid, status, options, NULL);
	if (!server->has_ended)
		return 0;
	if (status)
		*status = server->status;
	return pid;
}

/* ---- the record, which daemon_start() reads */

void fake_system_record(uid_t uid)
{
	add_server(uid);
	fake_system.n_recorded = fake_system.n_servers;
}

int record_store(int directory, const struct record *records, size_t n, const char *state)
{
	(void)directory;
	(void)records;
	(void)n;
	(void)state;
	fake_system.unrecorded = NULL;
	return 0;
}

void record_release(_unused_ int directory)
{
}

int record_load(int directory, struct record *records, size_t n_max, char **ret_state)
{
	*ret_state = NULL;
	(void)directory;
	for (unsigned i = 0; i < fake_system.n_recorded && i < n_max; i++) {
		const struct fake_server *server = &fake_system.servers[i];

		records[i] = (struct record){
			.pid = server->pid,
			.uid = server->uid,
			.start_time = (uint64_t)server->pid,
			.is_isolated = i % 3 == 2,
			.program = i,
			.client_uid = server->uid,
		};
	}
	return (int)fake_system.n_recorded;
}

/* ---- descriptors */

int async_close_start(void)
{
	return 0;
}

void async_close(int fd)
{
	closep(&fd);
}

void fake_system_set_cred(int fd, pid_t pid, uid_t uid)
{
	if (fd >= FDS_MAX)
		abort();
	creds[fd] = (struct ucred){.pid = pid, .uid = uid, .gid = uid};
}

int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict size)
{
	if (level != SOL_SOCKET || name != SO_PEERCRED)
		return (int)syscall(SYS_getsockopt, fd, level, name, value, size);
	memcpy(value, &creds[fd], sizeof(creds[fd]));
	return 0;
}

/* ---- time: the daemon's clock is blocked until an input advances it */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE)
		return (int)syscall(SYS_clock_gettime, clock, now);
	now->tv_sec = (time_t)(fake_system.now_ms / 1000);
	now->tv_nsec = (long)(fake_system.now_ms % 1000) * 1000000;
	return 0;
}

/* Another thread would make runs differ. */
int __wrap_uv_queue_work(
	uv_loop_t *loop, uv_work_t *work, uv_work_cb run, uv_after_work_cb after); /* NOLINT */

int __wrap_uv_queue_work(
	uv_loop_t *loop, uv_work_t *work, uv_work_cb run, uv_after_work_cb after) /* NOLINT */
{
	(void)loop;
	run(work);
	after(work, 0);
	return 0;
}
