/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Replies to stats --json, whole ones and others.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/top/top_sample.h"

#define CLIENT                                                                                     \
	"{\"pid\":7,\"server\":5,\"client\":1795592325478980554,\"uid\":1000,\"group\":\"g\","     \
	"\"command\":\"a\\u001bb\",\"kernel\":\"_Z1fv\",\"launches\":3,\"graph_launches\":2,"      \
	"\"copies_in\":1,"                                                                         \
	"\"copies_out\":2,\"copies_within\":4,\"bytes_in\":10,\"bytes_out\":20,\"errors\":6,"      \
	"\"busy_ns\":9223372036854775807,\"new\":[1],\"gpus\":["                                   \
	"{\"sms\":10,\"device_sms\":20,\"memory\":100},{\"sms\":9,\"share_sms\":5,\"slowdown\":"   \
	"null,"                                                                                    \
	"\"device_sms\":10,\"memory\":1}"                                                          \
	"]}"

static int sample_read(struct top_sample *sample, const char *text)
{
	return top_sample_read(sample, text, strlen(text));
}

static void test_client(_unused_ void **state)
{
	_cleanup_(top_sample_fini) struct top_sample sample = {0};
	const struct top_client *client;

	assert_int_equal(sample_read(&sample, "{\"time_ns\":77,\"clients\":[" CLIENT "],"
					      "\"servers\":[{\"store\":3,\"store_limit\":5},"
					      "{\"store\":4}]}\n"),
		0);
	assert_int_equal(sample.store, 7);
	assert_int_equal(sample.store_limit, 5);
	assert_int_equal(sample.time_ns, 77);
	assert_int_equal(sample.n_clients, 1);
	client = &sample.clients[0];
	assert_true(client->id == 1795592325478980554);
	assert_int_equal(client->pid, 7);
	assert_int_equal(client->server, 5);
	assert_int_equal(client->uid, 1000);
	assert_string_equal(client->group, "g");
	assert_string_equal(client->command, "a\x1b"
					     "b");
	assert_string_equal(client->kernel, "_Z1fv");
	assert_int_equal(client->launches, 5);
	assert_int_equal(client->copies, 7);
	assert_int_equal(client->bytes_in, 10);
	assert_int_equal(client->bytes_out, 20);
	assert_true(client->busy_ns == INT64_MAX);
	assert_int_equal(client->errors, 6);
	assert_int_equal(client->memory, 101);
	assert_int_equal(client->n_sms, 15);
	assert_int_equal(client->n_device_sms, 30);
	assert_true(client->is_background);
	assert_true(client->slowdown == 0);
}

/* Members that are missing or of another kind count as 0. */
static void test_lenient(_unused_ void **state)
{
	_cleanup_(top_sample_fini) struct top_sample sample = {0};

	assert_int_equal(sample_read(&sample, "{\"time_ns\":1,\"clients\":[{\"pid\":7,"
					      "\"group\":null,\"command\":\"\",\"launches\":-5,"
					      "\"errors\":\"x\",\"gpus\":{}}]}"),
		0);
	assert_null(sample.clients[0].group);
	assert_null(sample.clients[0].kernel);
	assert_int_equal(sample.clients[0].launches, 0);
	assert_int_equal(sample.clients[0].errors, 0);
	assert_int_equal(sample.clients[0].n_device_sms, 0);
	top_sample_fini(&sample);
	assert_int_equal(sample_read(&sample, "{\"time_ns\":1,\"clients\":[]}"), 0);
	assert_int_equal(sample.n_clients, 0);
}

static void test_others(_unused_ void **state)
{
	static const char *const texts[] = {
		"",
		"Unknown command \"stats\"\n",
		"[]",
		"{}",
		"{\"time_ns\":1}",
		"{\"time_ns\":1,\"clients\":{}}",
		"{\"time_ns\":0,\"clients\":[]}",
		"{\"time_ns\":1,\"clients\":[1]}",
		"{\"time_ns\":1,\"clients\":[" CLIENT ",{\"pid\":0,\"command\":\"x\"}]}",
		"{\"time_ns\":1,\"clients\":[{\"pid\":1}]}",
		"{\"time_ns\":1,\"clients\":[" CLIENT "]",
	};
	struct top_sample sample = {.time_ns = 99};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(sample_read(&sample, texts[i]), -EBADMSG);
	assert_int_equal(sample.time_ns, 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_client),
		cmocka_unit_test(test_lenient),
		cmocka_unit_test(test_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
