/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Aliases from messages of a client, over the counting driver: which bytes the client
 * may name when, which files are accepted, and changes to the files meanwhile.
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "server/driver/owner.h"
#include "server/memory/alias.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

#define MIB (1ull << 20)

static int file = -1;
static uint64_t on_device;

/* All its pages are present, as a client makes them. */
static int file_new(uint64_t size)
{
	int fd = memfd_create("alias", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	for (uint64_t at = 0; at < size; at += 4096)
		assert_int_equal(pwrite(fd, "x", 1, (off_t)at), 1);
	return fd;
}

static int open_session(void **state)
{
	uint64_t heap, heap_size, granularity, limits[16];
	int32_t least, greatest;
	uint32_t n_sms;

	(void)state;
	memset(&fake_calls, 0, sizeof(fake_calls));
	fake_switches = (struct fake_switches){.memory = FAKE_MEMORY};
	harness_open(false);
	assert_int_equal(send_device_open(0, 0, 0, &n_sms, &heap, &heap_size, &granularity, &least,
				 &greatest, limits),
		CUDA_SUCCESS);
	assert_int_equal(send_memory_alloc(0, 128 * MIB, &on_device), CUDA_SUCCESS);
	file = file_new(4 * MIB);
	return 0;
}

/* The harness checks that the driver has everything back. */
static int close_session(void **state)
{
	(void)state;
	close(file);
	fake_switches.is_busy = false;
	harness_close();
	return 0;
}

static CUresult settle(void)
{
	harness_serve();
	return harness_late_error();
}

static bool has(uint64_t address, uint64_t size)
{
	send_fill(0, address, 0, 1, size, 0, 1);
	return settle() == CUDA_SUCCESS;
}

static CUresult ask(int fd, uint64_t offset, uint64_t size, uint64_t *ret_address)
{
	struct stat is;

	assert_int_equal(fstat(fd, &is), 0);
	harness_send_memory(offset, size, fd);
	return send_host_alias(0, is.st_dev, is.st_ino, offset, size, ret_address);
}

static uint64_t alias(int fd, uint64_t offset, uint64_t size)
{
	uint64_t address = 0;

	assert_int_equal(ask(fd, offset, size, &address), CUDA_SUCCESS);
	assert_true(address >= HOST_SPACE && address < HOST_SPACE_END);
	assert_int_equal(address % 4096, offset % 4096);
	return address;
}

static void end(uint64_t address, CUresult expected)
{
	send_host_alias_end(address);
	assert_int_equal(settle(), expected);
}

static void test_access(void **state)
{
	int n = fake_counts.registrations;
	uint64_t a = alias(file, 0, 4 * MIB), b = alias(file, MIB + 5, 10000), address;

	(void)state;
	assert_true(has(a, 4 * MIB));
	assert_false(has(a, 4 * MIB + 1));
	assert_false(has(a - 1, 1));
	/* Whole pages of it. */
	assert_true(has(b - 5, 3ull * 4096));
	assert_false(has(b - 5, 3ull * 4096 + 1));
	assert_false(has(b - 6, 2)); /* the alias before it is another one */
	assert_false(has(b + MIB, 1));
	end(b + 1, CUDA_ERROR_INVALID_VALUE);
	end(b, CUDA_SUCCESS);
	assert_false(has(b, 1));
	assert_true(has(a, 4 * MIB));
	end(b, CUDA_ERROR_INVALID_VALUE);
	end(HOST_SPACE_END - 1, CUDA_ERROR_INVALID_VALUE);
	/* Its addresses are given out again; the last alias frees the run. */
	assert_int_equal(alias(file, MIB + 5, 10000), b);
	end(b, CUDA_SUCCESS);
	end(a, CUDA_SUCCESS);
	assert_int_equal(owner_of(a).session, 0);
	assert_int_equal(fake_counts.registrations, n);
	assert_int_equal(ask(file, 4 * MIB, 1, &address), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(ask(file, 1, 4 * MIB, &address), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(fake_counts.registrations, n);
}

/* Pinned and copied piece by piece. */
static void test_pieces(void **state)
{
	int fd = file_new(2 * HOST_PIECE + MIB);
	int n = fake_counts.registrations;
	uint64_t a = alias(fd, 0, 2 * HOST_PIECE + MIB);

	(void)state;
	assert_int_equal(fake_counts.registrations, n + 3);
	fake_calls.copies = 0;
	send_copy_device(0, on_device, a, 2 * HOST_PIECE + MIB);
	assert_int_equal(settle(), CUDA_SUCCESS);
	assert_int_equal(fake_calls.copies, 3);
	end(a, CUDA_SUCCESS);
	assert_int_equal(fake_counts.registrations, n);
	close(fd);
}

/* The pages stay while work may use them, even if the client ends the alias. */
static void test_busy(void **state)
{
	uint64_t a = alias(file, 0, MIB), b;
	int n = fake_counts.registrations;

	(void)state;
	fake_switches.is_busy = true;
	send_copy_device(0, on_device, a, MIB);
	end(a, CUDA_SUCCESS);
	assert_false(has(a, 1));
	assert_int_equal(fake_counts.registrations, n);
	end(a, CUDA_ERROR_INVALID_VALUE);
	b = alias(file, 0, MIB);
	assert_int_not_equal(a, b);
	fake_switches.is_busy = false;
	aliases_poll(harness.session);
	assert_int_equal(fake_counts.registrations, n);
	assert_null(harness.session->aliases->closing);
	assert_true(has(b, MIB));
}

/* A client may change its file in any way. */
static void test_cut_short(void **state)
{
	uint64_t a = alias(file, 0, 4 * MIB), address;

	(void)state;
	assert_int_equal(ftruncate(file, 4096), 0);
	assert_true(has(a, 4 * MIB));
	assert_int_equal(ask(file, 0, 4097, &address), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(ask(file, 0, 4096, &address), CUDA_SUCCESS);
	/* Pages that are missing would be charged to the server. */
	assert_int_equal(ftruncate(file, MIB), 0);
	assert_int_equal(ask(file, 0, 4097, &address), CUDA_ERROR_OUT_OF_MEMORY);
	end(a, CUDA_SUCCESS);
}

static void test_files(void **state)
{
	int sealed = file_new(MIB);
	uint64_t address;
	struct stat is;

	(void)state;
	assert_int_equal(fcntl(sealed, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	assert_int_equal(ask(sealed, 0, 1, &address), CUDA_ERROR_NOT_SUPPORTED);
	/* Another file than the intended one. */
	assert_int_equal(fstat(file, &is), 0);
	harness_send_memory(0, 1, file);
	assert_int_equal(send_host_alias(0, is.st_dev, is.st_ino + 1, 0, 1, &address),
		CUDA_ERROR_INVALID_VALUE);
	harness_send_memory(0, 1, file);
	assert_int_equal(send_host_alias(1, is.st_dev, is.st_ino, 0, 1, &address),
		CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(ask(file, 0, 1, &address), CUDA_SUCCESS);
	/* A frame that does not belong to the message: the session ends. */
	harness_send_memory(0, 2, file);
	assert_int_equal(send_host_alias(0, is.st_dev, is.st_ino, 0, 1, &address),
		CUDA_ERROR_MPS_RPC_FAILURE);
	close(sealed);
}

/* Files that are not in memory: the client library never sends them, so the session ends. */
static void test_other_files(void **state)
{
	static const char *const paths[] = {"/proc/self/exe", "/dev/zero", "/dev", "pipe"};
	uint64_t address;
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(paths); i++) {
		int fd = paths[i][0] == '/' ? open(paths[i], O_RDONLY | O_CLOEXEC) : fds[0];

		assert_int_equal(ask(fd, 0, 1, &address), CUDA_ERROR_MPS_RPC_FAILURE);
		close(fd);
		close_session(state);
		open_session(state);
	}
	close(fds[1]);
}

static void test_failures(void **state)
{
	struct quota *all = resource_of_server(RESOURCE_MAPPINGS);
	int n = fake_counts.registrations;
	uint64_t a, address = 0, limit = all->limit;

	(void)state;
	fake_switches.fail_next = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(ask(file, 0, MIB, &address), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(fake_counts.registrations, n);
	assert_null(harness.session->aliases->runs);
	/* Each needs two mappings, and one process leaves half to others; ended ones do not count.
	 */
	all->limit = 4096;
	a = alias(file, 0, 1);
	for (int i = 1; i < 1024; i++)
		address = alias(file, 0, 1);
	assert_int_equal(address - a, 1023 * (2 * MIB));
	assert_int_equal(ask(file, 0, 1, &address), CUDA_ERROR_OUT_OF_MEMORY);
	end(a, CUDA_SUCCESS);
	assert_int_equal(alias(file, 0, 1), a);
	all->limit = limit;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_access, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_pieces, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_busy, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_cut_short, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_files, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_other_files, open_session, close_session),
		cmocka_unit_test_setup_teardown(test_failures, open_session, close_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
