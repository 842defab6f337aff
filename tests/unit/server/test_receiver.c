/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The receiver: what it passes on, what it does not, and what happens when it ends or does not
 * reply. This program is its own receiver.
 */

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "server/session/received.h"
#include "server/session/receiver.h"

#define UID 1001

static const char frame[] = "fifteen bytes..";

/* Descriptors with the frame, from a client to the connection that is returned. */
static int send_fds(const int *fds, unsigned n_fds, size_t n_bytes)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int) * RECEIVED_FDS_MAX)];
	} control = {0};
	struct iovec iov = {.iov_base = (void *)frame, .iov_len = n_bytes};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	if (n_fds > 0) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		memcpy(CMSG_DATA(&control.head), fds, sizeof(int) * n_fds);
	}
	if (n_bytes > 0)
		assert_int_equal(sendmsg(pair[0], &message, 0), n_bytes);
	close(pair[0]);
	return pair[1];
}

/* The result of receiver_read() for a connection, which it closes. */
static int take(int connection, uid_t uid, enum fd_kind *ret_kind, int *ret_fd)
{
	char bytes[sizeof(frame)] = {0};
	int n = receiver_read(connection, uid, bytes, sizeof(bytes), ret_kind, ret_fd);

	close(connection);
	if (n > 0)
		assert_memory_equal(bytes, frame, n);
	return n;
}

static int take_one(int fd, uid_t uid)
{
	enum fd_kind kind;
	int got = -EBADF, n = take(send_fds(&fd, 1, sizeof(frame)), uid, &kind, &got);

	assert_int_equal(got >= 0, n > 0);
	if (got >= 0)
		close(got);
	close(fd);
	return n == (int)sizeof(frame) ? 0 : n;
}

static int memory(void)
{
	return memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

static int foreign(void)
{
	int pair[2];

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	close(pair[1]);
	return pair[0];
}

static bool is_alive(pid_t pid)
{
	siginfo_t info = {0};

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == 0;
}

/* The receiver of this process; 0: none is alive. Before it there may be some that end. */
static pid_t find_receiver(void)
{
	pid_t found = 0;
	char path[64];
	FILE *file;
	int pid;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	file = fopen(path, "re");
	if (!file)
		skip();
	while (fscanf(file, "%d", &pid) == 1)
		if (is_alive(pid))
			found = pid;
	fclose(file);
	return found;
}

static void test_memory(_unused_ void **state)
{
	enum fd_kind kind;
	struct stat sent, came;
	int fd = memory(), got;

	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(fstat(fd, &sent), 0);
	assert_int_equal(take(send_fds(&fd, 1, sizeof(frame)), UID, &kind, &got), sizeof(frame));
	assert_int_equal(kind, FD_MEMORY);
	assert_int_equal(fstat(got, &came), 0);
	assert_int_equal(came.st_ino, sent.st_ino);
	assert_int_equal(fcntl(got, F_GETFD), FD_CLOEXEC);
	close(fd);
	close(got);
}

static void test_device(_unused_ void **state)
{
	enum fd_kind kind;
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC), got;

	assert_int_equal(take(send_fds(&fd, 1, sizeof(frame)), UID, &kind, &got), sizeof(frame));
	assert_int_equal(kind, FD_DEVICE);
	close(fd);
	close(got);
}

static void test_other_files(_unused_ void **state)
{
	for (unsigned i = 0; i < 2 * RECEIVERS_ENDING_MAX; i++) {
		assert_int_equal(take_one(foreign(), UID), -EPERM);
		assert_int_equal(take_one(memory(), UID), 0);
	}
}

static void test_other_messages(_unused_ void **state)
{
	int fds[RECEIVED_FDS_MAX], got;
	enum fd_kind kind;

	for (unsigned i = 0; i < RECEIVED_FDS_MAX; i++)
		fds[i] = memory();
	assert_int_equal(take(send_fds(fds, 0, 3), UID, &kind, &got), 3);
	assert_int_equal(got, -EBADF);
	assert_int_equal(take(send_fds(fds, 2, sizeof(frame)), UID, &kind, &got), -EBADMSG);
	assert_int_equal(
		take(send_fds(fds, RECEIVED_FDS_MAX, sizeof(frame)), UID, &kind, &got), -EBADMSG);
	assert_int_equal(take(send_fds(fds, 0, 0), UID, &kind, &got), -ECONNRESET);
	for (unsigned i = 0; i < RECEIVED_FDS_MAX; i++)
		close(fds[i]);
	assert_int_equal(take_one(memory(), UID), 0);
}

static void test_killed(_unused_ void **state)
{
	pid_t pid = find_receiver();

	assert_true(pid > 0);
	kill(pid, SIGKILL);
	assert_int_equal(take_one(memory(), UID), 0);
}

/* A stopped receiver is like one that the kernel does not let end. */
static void test_no_reply(_unused_ void **state)
{
	pid_t pid = find_receiver();

	assert_true(pid > 0);
	kill(pid, SIGSTOP);
	assert_int_equal(take_one(memory(), UID), 0);
	assert_int_not_equal(find_receiver(), pid);
}

static void test_end(_unused_ void **state)
{
	receiver_stop();
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_device),
		cmocka_unit_test(test_other_files),
		cmocka_unit_test(test_other_messages),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_no_reply),
		cmocka_unit_test(test_end),
	};

	if (argc == 2 && strcmp(argv[1], RECEIVER_OPTION) == 0)
		return receiver_run(STDIN_FILENO);
	if (receiver_start("/proc/self/exe") < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
