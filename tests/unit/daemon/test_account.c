/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Accounts: which UIDs belong to which account, and what an account may have.
 */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon/text/process.h"
#include "daemon/state/account.h"

struct files {
	char subuid[32], passwd[32];
};

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void make_file(char path[32], const char *text)
{
	strcpy(path, "/tmp/mps-account-XXXXXX");
	close(mkstemp(path));
	write_file(path, text);
}

static int set_up(void **state)
{
	struct files *files = calloc(1, sizeof(*files));

	make_file(files->subuid, "");
	make_file(files->passwd, "root:x:0:0::/root:/bin/sh\n"
				 "alice:x:1001:1001::/:/bin/sh\n"
				 "bob:x:1002:1002::/:/bin/sh\n");
	*state = files;
	return 0;
}

static int tear_down(void **state)
{
	struct files *files = *state;

	unlink(files->subuid);
	unlink(files->passwd);
	free(files);
	return 0;
}

static void test_ranges(void **state)
{
	static const struct {
		uid_t uid, owner;
	} rows[] = {
		{0, 0},
		{1001, 1001},
		{99999, 99999},
		{100000, 1001},
		{165535, 1001},
		{165536, 1002},
		{231071, 1002},
		{231072, 231072},
		/* By number; a second range of the same user. */
		{300000, 1002},
		{400000, 1001},
		{400009, 1001},
		{400010, 400010},
		/* Users that the passwd file does not have, and root. */
		{500000, 500000},
		{565535, 500000},
		{600001, 600000},
		{700001, 700000},
		/* The last UID; overflowing, empty and malformed lines are ignored. */
		{UINT32_MAX, 1001},
		{800000, 800000},
		{900000, 900000},
		{1000000, 1000000},
	};
	struct files *files = *state;
	struct subordinates subordinates = {0};

	write_file(files->subuid,
		"alice:100000:65536\nbob:165536:65536\n1002:300000:1\nalice:400000:10\n"
		"ldap-user:500000:65536\nroot:600000:65536\n0:700000:65536\n"
		"alice:4294967290:6\nalice:4294967290:7\nalice:800000:0\nalice:-900000:5\n"
		"alice:900000\n:1000000:5\nalice:0:5\n\nalice\n::\nalice:1x:5\n");
	subordinates_refresh(&subordinates, files->subuid, files->passwd);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(subordinates_owner(&subordinates, rows[i].uid), rows[i].owner);
	subordinates_fini(&subordinates);
}

/* A line that is too long is skipped as a whole, and a number of lines is bounded. */
static void test_long_files(void **state)
{
	struct files *files = *state;
	struct subordinates subordinates = {0};
	FILE *file = fopen(files->subuid, "we");

	assert_non_null(file);
	for (int i = 0; i < 100; i++)
		fputs("xxxxxxxxxxxx", file);
	fputs(":1001:1\n", file);
	for (int i = 0; i < SUBORDINATE_RANGES_MAX + 10; i++)
		fprintf(file, "bob:%d:10\n", 100000 + 10 * i);
	assert_int_equal(fclose(file), 0);
	subordinates_refresh(&subordinates, files->subuid, files->passwd);
	assert_int_equal(subordinates.n, SUBORDINATE_RANGES_MAX);
	assert_int_equal(subordinates_owner(&subordinates, 1001), 1001);
	assert_int_equal(subordinates_owner(&subordinates, 100000), 1002);
	subordinates_fini(&subordinates);
}

/* The file is read again when it has changed, and its end is the end of its ranges. */
static void test_changes(void **state)
{
	struct files *files = *state;
	struct subordinates subordinates = {0};

	write_file(files->subuid, "alice:100000:65536\n");
	subordinates_refresh(&subordinates, files->subuid, files->passwd);
	assert_int_equal(subordinates_owner(&subordinates, 100000), 1001);
	write_file(files->subuid, "bob:100000:65536\n");
	subordinates_refresh(&subordinates, files->subuid, files->passwd);
	assert_int_equal(subordinates_owner(&subordinates, 100000), 1002);
	subordinates_refresh(&subordinates, "/tmp", files->passwd);
	assert_int_equal(subordinates_owner(&subordinates, 100000), 100000);
	subordinates_fini(&subordinates);
}

static void test_owners(void **state)
{
	static const struct {
		uid_t uid, peer_owner, owner;
	} rows[] = {
		{1001, 0, 1001}, {100005, 0, 2001},
		{100005, 1003, 2001},  /* the file counts first */
		{900000, 1003, 1003},  /* a range that the file does not have */
		{900000, 100005, 2001} /* a namespace in a namespace */
	};
	struct files *files = *state;
	struct accounts accounts;

	write_file(files->subuid, "2001:100000:65536\n");
	accounts_init(&accounts, files->subuid);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(
			accounts_owner(&accounts, rows[i].uid, rows[i].peer_owner), rows[i].owner);
	accounts_fini(&accounts);
}

static void test_order(void **state)
{
	struct files *files = *state;
	struct accounts accounts;
	struct account *first, *second;

	accounts_init(&accounts, files->subuid);
	first = account_get(&accounts, 1);
	second = account_get(&accounts, 1025);
	assert_ptr_not_equal(first, second);
	assert_ptr_equal(account_get(&accounts, 1), first);
	assert_ptr_equal(accounts.all.next, &first->link);
	account_note_start(first);
	assert_ptr_equal(accounts.all.next, &second->link);
	account_unref(first);
	account_unref(first);
	account_unref(NULL);
	assert_ptr_equal(account_get(&accounts, 1025), second);
	account_unref(second);
	account_unref(second);
	assert_true(list_empty(&accounts.all));
	accounts_fini(&accounts);
}

static bool write_own(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool is_written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return is_written;
}

/* Creates a user namespace, in which these IDs are the same as outside. */
static bool enter_namespace(void)
{
	return unshare(CLONE_NEWUSER) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0 &&
	       write_own("/proc/self/setgroups", "deny") &&
	       write_own("/proc/self/uid_map", "1007 1007 1") &&
	       write_own("/proc/self/gid_map", "1007 1007 1");
}

/* A process in `depth' user namespaces, the outermost of which UID 1007 has created. */
static pid_t start_in_namespaces(int depth)
{
	int pipes[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		bool is_ready = depth == 0 || (setgid(1007) == 0 && setuid(1007) == 0);

		for (int i = 0; i < depth; i++)
			is_ready = is_ready && enter_namespace();
		if (!is_ready || write(pipes[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(pipes[1]);
	if (read(pipes[0], &byte, 1) != 1) {
		waitpid(pid, NULL, 0);
		pid = -1;
	}
	close(pipes[0]);
	return pid;
}

static void end_process(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_namespaces(_unused_ void **state)
{
	for (int depth = 0; depth < 3; depth++) {
		pid_t pid = start_in_namespaces(depth);
		uid_t owner = 1;
		int pidfd;

		/* Not root, or the kernel allows users no namespaces. */
		if (pid < 0)
			skip();
		pidfd = process_open(pid);
		if (pidfd == -ENOSYS) {
			/* valgrind 3.19 has no pidfds. */
			end_process(pid);
			skip();
		}
		assert_int_equal(process_namespace_owner(pidfd, pid, &owner), 0);
		assert_int_equal(owner, depth ? 1007 : 0);
		end_process(pid);
		assert_true(process_namespace_owner(pidfd, pid, &owner) < 0);
		/* The PID is of another process now. */
		assert_int_equal(process_namespace_owner(pidfd, getpid(), &owner), -ESRCH);
		close(pidfd);
	}
}

/* Accounts that take all that they may: each has half of what the earlier ones leave. */
static void test_shares(_unused_ void **state)
{
	unsigned shares[8] = {0}, n_all = 0;

	for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
		while (account_may_take(shares[i], n_all, 63)) {
			shares[i]++;
			n_all++;
		}
	assert_int_equal(shares[0], 32);
	assert_int_equal(shares[1], 16);
	assert_int_equal(shares[2], 8);
	assert_int_equal(shares[5], 1);
	assert_int_equal(n_all, 63);
	assert_false(account_may_take(0, 63, 63));
	assert_true(account_may_take(0, 0, 1));
	assert_false(account_may_take(1, 1, 1));
	/* A limit that was lowered. */
	assert_false(account_may_take(0, 5, 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ranges, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_long_files, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_changes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_owners, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_order, set_up, tear_down),
		cmocka_unit_test(test_namespaces),
		cmocka_unit_test(test_shares),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
