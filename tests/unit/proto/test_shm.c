/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sealed memories: what a peer can and cannot do to them, and which memories of a
 * peer are refused.
 */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "shm.h"

#define SIZE 8192

static void test_theirs_is_writable_but_fixed(void **state)
{
	int fd;
	void __shm *map, *peer;

	(void)state;
	assert_int_equal(shm_create("t", SIZE, SHM_THEIRS, &fd, &map), 0);
	assert_int_equal(shm_map(fd, SIZE, SHM_THEIRS, &peer), 0);
	((char *)shm_raw(peer))[17] = 'x';
	assert_int_equal(((char *)shm_raw(map))[17], 'x');
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, (off_t)2 * SIZE), -1);
	assert_int_equal(shm_map(fd, SIZE / 2, SHM_THEIRS, &peer), -EBADMSG);
	shm_unmap(peer, SIZE);
	shm_unmap(map, SIZE);
	close(fd);
}

static void test_ours_cant_be_written_by_others(void **state)
{
	int fd;
	void __shm *map, *peer;

	(void)state;
	assert_int_equal(shm_create("t", SIZE, SHM_OURS, &fd, &map), 0);
	assert_int_equal(shm_map(fd, SIZE, SHM_OURS, &peer), 0);
	((char *)shm_raw(map))[5] = 'y';
	assert_int_equal(((char *)shm_raw(peer))[5], 'y');
	assert_int_equal(mprotect(shm_raw(peer), SIZE, PROT_READ | PROT_WRITE), -1);
	assert_ptr_equal(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_equal(write(fd, "z", 1), -1);
	shm_unmap(peer, SIZE);
	shm_unmap(map, SIZE);
	close(fd);
}

static void test_an_image_is_sealed_whole(void **state)
{
	static const char image[] = "an image";
	int fd;
	void *map;

	(void)state;
	assert_int_equal(shm_create_image("i", image, sizeof(image), &fd), 0);
	assert_int_equal(shm_map_image(fd, sizeof(image), &map), 0);
	assert_string_equal(map, image);
	assert_int_equal(write(fd, "z", 1), -1);
	munmap(map, sizeof(image));
	assert_int_equal(shm_map_image(fd, sizeof(image) + 1, &map), -EBADMSG);
	close(fd);
}

static void test_refuses_what_can_change(void **state)
{
	int fd = memfd_create("loose", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	int pipes[2];
	void __shm *shared;
	void *map;

	(void)state;
	assert_int_equal(ftruncate(fd, SIZE), 0);
	assert_int_equal(shm_map(fd, SIZE, SHM_THEIRS, &shared), -EBADMSG);
	assert_int_equal(shm_map_image(fd, SIZE, &map), -EBADMSG);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	assert_int_equal(shm_map_image(fd, SIZE, &map), -EBADMSG);
	close(fd);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(shm_map_image(pipes[0], SIZE, &map), -EBADMSG);
	assert_int_equal(shm_map_image(-1, SIZE, &map), -EBADMSG);
	close(pipes[0]);
	close(pipes[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_theirs_is_writable_but_fixed),
		cmocka_unit_test(test_ours_cant_be_written_by_others),
		cmocka_unit_test(test_an_image_is_sealed_whole),
		cmocka_unit_test(test_refuses_what_can_change),
	};

	return cmocka_run_group_tests_name("shm", tests, NULL, NULL);
}
