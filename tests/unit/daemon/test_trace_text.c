/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events of a trace as JSON: their form, and that any bytes of a server give valid text.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/watch/trace_text.h"
#include "tests/unit/seed.h"

static struct trace_chunk chunk;

static void begin(void)
{
	memset(&chunk, 0, sizeof(chunk));
	chunk.head.magic = TRACE_MAGIC;
	chunk.head.pid = 7;
	chunk.head.uid = 12;
	strcpy(chunk.head.command, "./\"train\"");
	strcpy(chunk.names + 1, "saxpy");
	chunk.head.names_size = 7;
}

static void add(struct trace_record record)
{
	chunk.records[chunk.head.n_records++] = record;
}

static void check(const char *want)
{
	_cleanup_free_ char *text = NULL;

	assert_true(trace_chunk_ok(&chunk));
	text = json_write(trace_text(&chunk));
	assert_string_equal(text, want);
}

#define PROCESS                                                                                    \
	"{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":7,\"args\":{\"name\":"                    \
	"\"./\\\"train\\\" (user 12)\"}}"
#define STREAM(id, name)                                                                           \
	"{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":7,\"tid\":" id ",\"args\":{\"name\":"      \
	"\"" name "\"}}"

static void test_events(_unused_ void **state)
{
	begin();
	strcpy(chunk.head.group, "pool/small");
	check("[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":7,\"args\":{\"name\":"
	      "\"./\\\"train\\\" (user 12, pool/small)\"}}]");
	begin();
	check("[" PROCESS "]");
	add((struct trace_record){.kind = TRACE_LAUNCH,
		.start_ns = 5000001002,
		.duration_ns = 99,
		.stream = 64,
		.count = 3,
		.name = 1,
		.flags = TRACE_MIXED});
	add((struct trace_record){.kind = TRACE_COPY_IN,
		.start_ns = 1,
		.size = 4096,
		.flags = TRACE_UNTIMED | TRACE_REFUSED});
	add((struct trace_record){.kind = TRACE_FAULT, .start_ns = 2000});
	check("[" PROCESS "," STREAM("64", "stream 1") "," STREAM(
		"0", "NULL stream of GPU 0") ",{\"ph\":\"X\",\"name\":\"saxpy and "
					     "others\",\"cat\":\"kernel\",\"pid\":7,\"tid\":64,"
					     "\"ts\":5000001.002,\"dur\":0.099,\"args\":{"
					     "\"launches\":3}}"
					     ",{\"ph\":\"i\",\"name\":\"copy in\",\"cat\":\"copy "
					     "in\",\"pid\":7,\"tid\":0,"
					     "\"ts\":0.001,\"s\":\"t\",\"args\":{\"bytes\":4096,"
					     "\"untimed\":true,\"refused\":true}}"
					     ",{\"ph\":\"i\",\"name\":\"GPU fault\",\"cat\":\"GPU "
					     "fault\",\"pid\":7,\"tid\":0,"
					     "\"ts\":2.0,\"s\":\"p\",\"args\":{}}]");
}

/* A mangled name is shown as the source has it; the symbol is beside it. */
static void test_symbols(_unused_ void **state)
{
	begin();
	strcpy(chunk.names + 7, "_Z5storePi");
	chunk.head.names_size = 18;
	add((struct trace_record){.kind = TRACE_LAUNCH, .name = 7, .count = 2});
	add((struct trace_record){
		.kind = TRACE_LAUNCH, .name = 7, .count = 1, .flags = TRACE_MIXED});
	check("[" PROCESS "," STREAM(
		"0", "NULL stream of GPU 0") ",{\"ph\":\"X\",\"name\":\"store(int*)\",\"cat\":"
					     "\"kernel\",\"pid\":7,\"tid\":0,\"ts\":0.0,\"dur\":"
					     "0.0,\"args\":{\"symbol\":\"_Z5storePi\","
					     "\"launches\":2}}"
					     ",{\"ph\":\"X\",\"name\":\"store(int*) and "
					     "others\",\"cat\":\"kernel\",\"pid\":7,\"tid\":0,"
					     "\"ts\":0.0,\"dur\":0.0,\"args\":{\"symbol\":"
					     "\"_Z5storePi\",\"launches\":1}}]");
}

static void test_full(_unused_ void **state)
{
	begin();
	chunk.head.n_lost = 9;
	chunk.head.full_ns = 1500;
	check("[" PROCESS
	      ",{\"ph\":\"i\",\"name\":\"the trace is full\",\"cat\":\"full\",\"pid\":7,"
	      "\"tid\":0,\"ts\":1.5,\"s\":\"p\",\"args\":{\"missing_events\":9}}]");
}

static void test_levels(_unused_ void **state)
{
	begin();
	add((struct trace_record){.kind = TRACE_SHARE, .size = 96, .start_ns = 1000});
	add((struct trace_record){
		.kind = TRACE_SLOWDOWN, .size = 1030, .stream = 1, .start_ns = 2000});
	check("[" PROCESS ",{\"ph\":\"C\",\"name\":\"SMs on GPU 0\",\"pid\":7,\"ts\":1.0,"
	      "\"args\":{\"SMs\":96}},{\"ph\":\"C\",\"name\":\"slowdown on GPU 1\",\"pid\":7,"
	      "\"ts\":2.0,\"args\":{\"times\":1.03}}]");
}

/* What is impossible is left out. */
static void test_impossible(_unused_ void **state)
{
	const struct trace_record odd[] = {
		{.kind = 0},
		{.kind = TRACE_KINDS},
		{.kind = TRACE_FILL, .stream = UINT32_MAX},
		{.kind = TRACE_FILL, .start_ns = UINT64_MAX},
		{.kind = TRACE_FILL, .duration_ns = UINT64_MAX},
		{.kind = TRACE_FILL, .name = TRACE_NAMES},
	};

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		add(odd[i]);
	check("[" PROCESS "]");
	chunk.head.n_records = TRACE_RECORDS + 1;
	assert_false(trace_chunk_ok(&chunk));
	begin();
	chunk.head.names_size = TRACE_NAMES + 1;
	assert_false(trace_chunk_ok(&chunk));
	begin();
	chunk.head.magic = 0;
	assert_false(trace_chunk_ok(&chunk));
}

/* Brackets outside of strings match, and no control character is in the text. */
static void check_form(const char *text)
{
	int depth = 0;
	bool in_string = false;

	for (const char *c = text; *c; c++) {
		assert_true((unsigned char)*c >= ' ');
		if (in_string && *c == '\\')
			c++;
		else if (*c == '"')
			in_string = !in_string;
		else if (!in_string && strchr("[{", *c))
			depth++;
		else if (!in_string && strchr("]}", *c))
			assert_true(--depth > 0 || !c[1]);
	}
	assert_false(in_string);
	assert_int_equal(depth, 0);
}

static void test_any_bytes(_unused_ void **state)
{
	unsigned char *bytes = (unsigned char *)&chunk;
	unsigned seed = seed_read(1);

	for (unsigned round = 0; round < 20; round++) {
		_cleanup_free_ char *text = NULL;

		for (size_t i = 0; i < sizeof(chunk); i++)
			bytes[i] = (unsigned char)rand_r(&seed);
		chunk.head.magic = TRACE_MAGIC;
		chunk.head.n_records = TRACE_RECORDS;
		chunk.head.names_size = TRACE_NAMES;
		for (size_t i = 0; i < TRACE_RECORDS; i++) {
			struct trace_record *record = &chunk.records[i];

			record->kind %= TRACE_KINDS + 1;
			record->stream %= 5000;
			record->name %= TRACE_NAMES + 10;
			record->start_ns >>= 1 + round % 8;
			record->duration_ns >>= 1 + round % 8;
		}
		assert_true(trace_chunk_ok(&chunk));
		text = json_write(trace_text(&chunk));
		assert_non_null(text);
		check_form(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_symbols),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_levels),
		cmocka_unit_test(test_impossible),
		cmocka_unit_test(test_any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
