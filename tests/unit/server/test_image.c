/* SPDX-License-Identifier: Apache-2.0 */

/* Images: shared by content; refused if they are not sealed, have holes or are incomplete. */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "shm.h"
#include "server/util/image.h"

static int make(const void *data, size_t size)
{
	int fd = -1;

	assert_int_equal(shm_create_image("image", data, size, &fd), 0);
	return fd;
}

static void test_equal_ones_are_one(void **state)
{
	static const char text[] = ".version 8.0", other[] = ".version 8.1";
	int fds[] = {
		make(text, sizeof(text)), make(text, sizeof(text)), make(other, sizeof(other))};
	struct image *images[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(image_get(NULL, fds[i], sizeof(text), &images[i]), 0);
		close(fds[i]);
	}
	assert_ptr_equal(images[0], images[1]);
	assert_ptr_not_equal(images[0], images[2]);
	assert_int_equal(images_count(), 2);
	assert_memory_equal(images[0]->data, text, sizeof(text));
	image_unref(images[0]);
	image_unref(images[2]);
	assert_int_equal(images_count(), 1);
	assert_memory_equal(images[1]->data, text, sizeof(text));
	image_unref(images[1]);
	assert_int_equal(images_count(), 0);
	image_unref(NULL);
}

/* Each is a mapping of this process, of which a session leaves half to others. */
static void test_mappings(void **state)
{
	struct quota *all = resource_of_server(RESOURCE_MAPPINGS);
	struct account *account = account_new(1, (struct account_owner){0}, NULL);
	struct image *images[300], *more;
	uint64_t limit = all->limit;
	int fd = -1;

	(void)state;
	all->limit = 2 * ARRAY_SIZE(images);
	for (uint32_t i = 0; i <= ARRAY_SIZE(images); i++) {
		bool is_last = i == ARRAY_SIZE(images);

		fd = make(&i, sizeof(i));
		assert_int_equal(image_get(account, fd, sizeof(i), is_last ? &more : &images[i]),
			is_last ? -ENOMEM : 0);
		if (!is_last)
			close(fd);
	}
	image_unref(images[7]);
	assert_int_equal(image_get(account, fd, sizeof(uint32_t), &images[7]), 0);
	close(fd);
	for (unsigned i = 0; i < ARRAY_SIZE(images); i++)
		image_unref(images[i]);
	assert_int_equal(quota_used(all), 0);
	account_close(account);
	all->limit = limit;
}

static void test_parts(void **state)
{
	/* Three fatbins of 24, 32 and 16 bytes. */
	uint64_t bytes[] = {
		0x00100001ba55ed50, 8, 1, 0x00100001ba55ed50, 16, 2, 3, 0x00100001ba55ed50, 0};
	struct {
		uint32_t magic, version;
		const uint8_t *data;
		const uint8_t *const *parts;
	} wrapper;
	struct image *image;
	int fd = make(bytes, sizeof(bytes));

	(void)state;
	assert_int_equal(image_get(NULL, fd, sizeof(bytes), &image), 0);
	close(fd);
	memcpy(&wrapper, image_code(image), sizeof(wrapper));
	assert_int_equal(wrapper.magic, 0x466243b1);
	assert_int_equal(wrapper.version, 2);
	assert_ptr_equal(wrapper.data, image->data);
	assert_ptr_equal(wrapper.parts[0], wrapper.data + 24);
	assert_ptr_equal(wrapper.parts[1], wrapper.data + 56);
	assert_null(wrapper.parts[2]);
	image_unref(image);
	/* A single one, followed by other bytes. */
	bytes[3] = 0;
	fd = make(bytes, sizeof(bytes));
	assert_int_equal(image_get(NULL, fd, sizeof(bytes), &image), 0);
	close(fd);
	assert_ptr_equal(image_code(image), image->data);
	image_unref(image);
}

static void refused(const void *data, size_t size, size_t claimed)
{
	struct image *image = NULL;
	int fd = make(data, size);

	assert_int_equal(image_get(NULL, fd, claimed, &image), -EBADMSG);
	assert_null(image);
	close(fd);
}

static void test_shapes(void **state)
{
	struct {
		uint32_t magic;
		uint16_t version, head_size;
		uint64_t size;
		uint8_t body[48];
	} fatbin = {0xba55ed50, 1, 16, 48, {0}};
	struct image *image;
	int fd = make(&fatbin, sizeof(fatbin));

	(void)state;
	assert_int_equal(image_get(NULL, fd, sizeof(fatbin), &image), 0);
	image_unref(image);
	close(fd);
	refused(&fatbin, sizeof(fatbin) - 1, sizeof(fatbin) - 1);
	fatbin.size = UINT64_MAX;
	refused(&fatbin, sizeof(fatbin), sizeof(fatbin));
	/* Another fatbin follows that is incomplete, or has a size of 0. */
	fatbin.size = 24;
	memcpy(fatbin.body + 24, &fatbin, 16);
	fatbin.body[24 + 8] = 25;
	refused(&fatbin, sizeof(fatbin), sizeof(fatbin));
	memset(fatbin.body + 24 + 6, 0, 10);
	refused(&fatbin, sizeof(fatbin), sizeof(fatbin));
	refused("no NUL", 6, 6);
	refused("text", 5, 4);
	refused("text", 5, 6);
	refused("\177ELF too short", 15, 15);
	assert_int_equal(images_count(), 0);
}

static void test_unsealed(void **state)
{
	struct image *image = NULL;
	int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	assert_int_equal(write(fd, "text", 5), 5);
	assert_int_equal(image_get(NULL, fd, 5, &image), -EBADMSG);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	assert_int_equal(image_get(NULL, fd, 5, &image), -EBADMSG);
	close(fd);
}

/* Reading a hole would allocate memory that its creator was never charged for. */
static void test_holes(void **state)
{
	struct image *image = NULL;
	int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	assert_int_equal(ftruncate(fd, 1 << 30), 0);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	assert_int_equal(image_get(NULL, fd, 1 << 30, &image), -EBADMSG);
	close(fd);
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_int_equal(image_get(NULL, fd, 4096, &image), -EBADMSG);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_ones_are_one),
		cmocka_unit_test(test_mappings),
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_unsealed),
		cmocka_unit_test(test_holes),
	};

	return cmocka_run_group_tests_name("server image", tests, NULL, NULL);
}
