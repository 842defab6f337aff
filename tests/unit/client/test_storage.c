/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Context-local storage, with the driver's measured results.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "client/context/storage.h"

static char ended[16];
static struct storage storage = STORAGE_INIT;
static int keys[3];

static void note_end(CUcontext context, void *key, void *value)
{
	void *found;

	assert_ptr_equal(context, (CUcontext)&storage);
	/* Its entry is removed, and the lock is free. */
	assert_int_equal(storage_get(&storage, key, &found), CUDA_ERROR_INVALID_HANDLE);
	ended[strlen(ended)] = *(const char *)value;
}

static void test_put_get_delete(void **state)
{
	void *value = keys;

	(void)state;
	assert_int_equal(storage_get(&storage, &keys[0], &value), CUDA_ERROR_INVALID_HANDLE);
	assert_ptr_equal(value, keys);
	assert_int_equal(storage_put(&storage, &keys[0], "a", note_end), CUDA_SUCCESS);
	assert_int_equal(storage_put(&storage, &keys[0], "b", NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(storage_get(&storage, &keys[0], &value), CUDA_SUCCESS);
	assert_string_equal(value, "a");
	assert_int_equal(storage_delete(&storage, &keys[0]), CUDA_SUCCESS);
	assert_int_equal(storage_delete(&storage, &keys[0]), CUDA_ERROR_INVALID_HANDLE);
	assert_string_equal(ended, "");
}

static void test_null_value(void **state)
{
	void *value = keys;

	(void)state;
	assert_int_equal(storage_put(&storage, NULL, NULL, NULL), CUDA_SUCCESS);
	assert_int_equal(storage_get(&storage, NULL, &value), CUDA_SUCCESS);
	assert_null(value);
	storage_end(&storage, (CUcontext)&storage);
}

static void test_end(void **state)
{
	void *value;

	(void)state;
	assert_int_equal(storage_put(&storage, &keys[0], "a", note_end), CUDA_SUCCESS);
	assert_int_equal(storage_put(&storage, &keys[1], "b", note_end), CUDA_SUCCESS);
	assert_int_equal(storage_put(&storage, &keys[2], "c", note_end), CUDA_SUCCESS);
	storage_end(&storage, (CUcontext)&storage);
	assert_string_equal(ended, "cba");
	assert_int_equal(storage_get(&storage, &keys[1], &value), CUDA_ERROR_INVALID_HANDLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_put_get_delete),
		cmocka_unit_test(test_null_value),
		cmocka_unit_test(test_end),
	};

	return cmocka_run_group_tests_name("client_storage", tests, NULL, NULL);
}
