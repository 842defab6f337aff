/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Why a session cannot move to another server (server/session/session_move.h): a row makes what
 * the reason is about, over the counting driver. tests/system/test_docs.py checks that each reason
 * is in a test, and in docs/reliability.md.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "managed_cubin.h"
#include "open_session.h"
#include "server/session/fault.h"
#include "server/session/session_move.h"
#include "server/session/session_part.h"
#include "server/driver/driver.h"
#include "server/share/session_device.h"
#include "server/stream/printf_capture.h"
#include "server/array/array.h"
#include "server/module/globals.h"
#include "server/module/library.h"

enum {
	LIBRARY = 3,
	KERNEL = 4,
	GRAPH = 5,
	EVENT = 6,
	OBJECT = 7,
};

#define CHUNK ((uint64_t)2 << 20)

#define STREAM (DEVICES_MAX + 3)

static struct cuda_api real;
static void *filling; /* what takes all that the account may hold */

static struct session *session(void)
{
	return harness.session;
}

static void serve(void)
{
	assert_int_equal(harness_serve(), 0);
}

/* Takes what the session's account may hold, except for `left' bytes. */
static void fill_account(uint64_t left)
{
	struct account *account = session()->account;

	filling = account_alloc(account, 1, account_limit(account) - account_held(account) - left);
	assert_non_null(filling);
}

static void empty_account(void)
{
	account_free(filling);
	filling = NULL;
}

/* ---- code */

static void load(const void *image, size_t size, bool may_place)
{
	session()->limits.oversubscribe = may_place ? OVERSUBSCRIBE_YES : OVERSUBSCRIBE_NO;
	harness_send_image(image, size);
	assert_int_equal(send_library_load(LIBRARY, size), CUDA_SUCCESS);
}

/* The first use, which places the variables, if they can be placed. */
static void use(const char *name)
{
	uint64_t address, size;

	assert_int_equal(send_library_global(LIBRARY, 0, name, &address, &size), CUDA_SUCCESS);
}

static void use_code(const struct cubin_file *file)
{
	load(file, sizeof(*file), true);
	use("first");
}

static void use_unplaced(const struct cubin_file *file)
{
	load(file, sizeof(*file), false);
	use("a constant");
	atomic_store(&session()->is_moving, true);
}

static struct cubin_file without_variables(void)
{
	struct cubin_file file = plain_cubin();

	file.sections[INITIAL].sh_size = file.sections[ZEROS].sh_size = 0;
	return file;
}

static void make_unread(void)
{
	struct cubin_file file = plain_cubin();

	use_unplaced(&file);
	atomic_store(&session()->is_moving, false);
}

static void make_placed_by_driver(void)
{
	struct cubin_file file = plain_cubin();

	use_unplaced(&file);
}

static void make_many_variables(void)
{
	struct cubin_file file = plain_cubin();

	file.sections[ZEROS].sh_size = GLOBALS_SIZE_MAX;
	use_code(&file);
}

static void make_text(const char *start, size_t size)
{
	static char text[(1 << 20) + 2];

	memset(text, ' ', sizeof(text) - 1);
	memcpy(text, start, strlen(start));
	text[size - 1] = 0;
	load(text, size, true);
	use("first");
}

static void make_long_text(void)
{
	make_text(".version 7.0\n.global .u32 word;", (1 << 20) + 2);
}

static void make_managed_variables(void)
{
	uint64_t size;

	load(&whole, sizeof(whole), true);
	fill_account(sizeof(whole));
	assert_int_equal(send_managed_measure(LIBRARY, 0, &size), CUDA_ERROR_OUT_OF_MEMORY);
	empty_account();
	use("other");
}

static void make_unknown_function(void)
{
	struct cubin_file file = plain_cubin();

	file.sections[OF_CONSTANTS].sh_info = INITIAL;
	file.sections[OF_CONSTANTS].sh_size = sizeof(Elf64_Rela);
	file.of_constants[0] = (Elf64_Rela){.r_info = ELF64_R_INFO(0, 2)};
	use_code(&file);
}

static void make_account_full(void)
{
	struct cubin_file file = plain_cubin();

	load(&file, sizeof(file), true);
	fill_account(sizeof(file));
	use("first");
}

static CUresult refuse_link(
	_unused_ CUlinkState state, _unused_ void **ret_made, _unused_ size_t *ret_size)
{
	return CUDA_ERROR_INVALID_PTX;
}

static void make_refused_text(void)
{
	cuda.cuLinkComplete = refuse_link;
	make_text(".version 7.0\n.global .u32 word;", 64);
}

static CUresult refuse_code(_unused_ CUlibrary *library, _unused_ const void *code,
	_unused_ CUjit_option *options, _unused_ void **values, _unused_ unsigned n,
	_unused_ CUlibraryOption *library_options, _unused_ void **library_values,
	_unused_ unsigned n_library)
{
	return CUDA_ERROR_INVALID_IMAGE;
}

static void make_refused_code(void)
{
	struct cubin_file file = plain_cubin();

	load(&file, sizeof(file), true);
	cuda.cuLibraryLoadData = refuse_code;
	use("first");
}

static void make_unknown_code(void)
{
	struct cubin_file file = plain_cubin();

	file.of_code[0].r_info = ELF64_R_INFO(FIRST, 0x77);
	use_code(&file);
}

static void make_functions(void)
{
	struct cubin_file file = without_variables();

	file.symbols[SECOND].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
	file.symbols[SECOND].st_shndx = CODE;
	file.of_code[0].r_addend = file.of_code[1].r_addend = 0;
	use_unplaced(&file);
}

static void make_heap(void)
{
	struct cubin_file file = without_variables();

	memcpy(file.names + file.symbols[SECOND].st_name, "malloc", 7);
	use_unplaced(&file);
}

static void make_constants(void)
{
	struct range range = {.address = 0x700000000000,
		.size = 1 << 20,
		.real = 0x700000000000,
		.is_variable = true};
	struct cubin_file file = without_variables();

	use_unplaced(&file);
	assert_null(session_stays(session()));
	assert_int_equal(ranges_add(&session()->variables, &range), 0);
}

/* They are read when the session rests. */
static void make_lost_constants(void)
{
	struct cubin_file file = without_variables();

	use_unplaced(&file);
	(void)fault_note(session(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void make_lost_launch(void)
{
	session()->has_lost = true;
}

static void make_linker_under_way(void)
{
	assert_int_equal(send_linker_create(OBJECT, 0, 0, 0, NULL, 0), CUDA_SUCCESS);
}

/* ---- graphs */

static void begin_graph(void)
{
	send_graph_begin(GRAPH, 0);
	serve();
}

static void instantiate(uint32_t n_nodes)
{
	uint32_t error_node;

	assert_int_equal(send_graph_instantiate(GRAPH, n_nodes, 0, &error_node), CUDA_SUCCESS);
}

static uint64_t make_fill_graph(void)
{
	uint64_t memory;

	assert_int_equal(send_memory_alloc(0, 4096, &memory), CUDA_SUCCESS);
	begin_graph();
	send_graph_fill(GRAPH, 0, memory, 0, 4, 16, 0, 1);
	instantiate(1);
	assert_null(session_stays(session()));
	return memory;
}

static void make_graph_of_unloaded_code(void)
{
	static const uint32_t one[3] = {1, 1, 1}, none[3];
	static uint8_t params[FAKE_PARAM_BYTES];
	struct cubin_file file = plain_cubin();
	int32_t attributes[16];

	use_code(&file);
	assert_int_equal(send_library_kernel(LIBRARY, KERNEL, "kernel", attributes), CUDA_SUCCESS);
	begin_graph();
	send_graph_kernel(GRAPH, 0, WIRE_CONTEXT_SHARES_MAX, KERNEL, one, one, 0, 0, none, 0, 0,
		params, sizeof(params));
	instantiate(1);
	assert_null(session_stays(session()));
	send_library_unload(LIBRARY);
	serve();
}

static void make_failed_change(void)
{
	uint64_t memory = make_fill_graph();

	/* It has no such node. */
	send_graph_fill(GRAPH, 1, memory, 0, 4, 16, 0, 1);
	serve();
}

static void make_freed_memory(void)
{
	send_memory_free(make_fill_graph());
	serve();
}

static void make_running_graph(void)
{
	(void)make_fill_graph();
	send_stream_create(STREAM, 0, 0, 0);
	fake_switches.is_busy = true;
	send_graph_launch(STREAM, GRAPH);
	send_graph_destroy(GRAPH);
	serve();
}

/* ---- what lies in the server, or belongs to two */

static void make_late_error(void)
{
	/* This stream is unknown. */
	send_stream_create(STREAM, 0, 0, 0);
	send_fill(STREAM, 0x1000, 0, 4, 16, 0, 1);
	serve();
}

/* There is space for an event, but not for a larger record. */
static void make_full_record(void)
{
	for (uint32_t i = 0; i < 1000 && !record_obstacle(&session()->record); i++) {
		send_event_create(i, 0);
		serve();
		empty_account();
		fill_account(2 << 10);
	}
}

static void make_array_of_floats(void)
{
	assert_int_equal(
		send_array_create(OBJECT, 0, 16, 1, 0, CU_AD_FORMAT_FLOAT, 1, 0, 0), CUDA_SUCCESS);
	assert_null(session_stays(session()));
}

/* More than any machine has. */
static void make_large_array(void)
{
	struct array *array;

	make_array_of_floats();
	array = handle_get(&session()->arrays, OBJECT);
	array->bytes = 1ull << 60;
}

static void make_fault(void)
{
	make_array_of_floats();
	(void)fault_note(session(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* The session is another one while it opens the memory, and while it ends. */
static void make_ended_share(void)
{
	uint64_t memory, token[2], address, size;
	struct opened *opened;
	uint32_t device;

	assert_int_equal(send_memory_alloc(0, CHUNK, &memory), CUDA_SUCCESS);
	assert_int_equal(send_ipc_memory_export(memory, 64, token), CUDA_SUCCESS);
	session()->id++;
	assert_int_equal(send_ipc_memory_open(token, &address, &size, &device), CUDA_SUCCESS);
	session()->id--;
	opened = TAKE_PTR(session()->opened);
	ipc_part.end(session(), false);
	session()->opened = opened;
}

static void make_ended_event(void)
{
	uint64_t token[2];

	send_event_create(EVENT, CU_EVENT_DISABLE_TIMING);
	assert_int_equal(send_ipc_event_export(EVENT, 0, token), CUDA_SUCCESS);
	begin_graph();
	send_graph_event(GRAPH, 0, EVENT, 1);
	instantiate(1);
	assert_null(session_stays(session()));
	send_event_destroy(EVENT);
	serve();
}

static void make_output(void)
{
	session()->text->n_bytes = 1;
}

static void make_smaller_file(void)
{
	int fd = memfd_create("registered", MFD_CLOEXEC);
	uint64_t address;
	struct stat file;

	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(pwrite(fd, "x", 1, 0), 1);
	assert_int_equal(fstat(fd, &file), 0);
	harness_send_memory(0, 4096, fd);
	assert_int_equal(
		send_host_alias(0, file.st_dev, file.st_ino, 0, 4096, &address), CUDA_SUCCESS);
	assert_null(session_stays(session()));
	assert_int_equal(ftruncate(fd, 0), 0);
	close(fd);
}

static void make_compressed(void)
{
	uint32_t granted;

	assert_int_equal(send_allocation_create(OBJECT, 0, CHUNK, 0, 0, &granted), CUDA_SUCCESS);
	assert_null(session_stays(session()));
	assert_int_equal(send_allocation_create(
				 OBJECT + 1, 0, CHUNK, 0, WIRE_ALLOCATION_COMPRESSED, &granted),
		CUDA_SUCCESS);
}

static void make_evicted(void)
{
	session()->devices[0]->arena.away = 1ull << 60;
}

/* Only whether there is one counts. */
static void make_trace(void)
{
	session()->trace = (void *)&real;
}

static const struct row {
	const char *reason;
	void (*make)(void);
} rows[] = {
	{"it may have code whose variables the driver has placed", make_unread},
	{"it has code whose variables the driver has placed", make_placed_by_driver},
	{"it has code with more than 16 MiB of variables, or more than 64 MiB of code",
		make_many_variables},
	{"it has variables in more than 1 MiB of PTX", make_long_text},
	{"it has code whose __managed__ variables the driver has placed", make_managed_variables},
	{"it has code with a variable that holds the address of a function or a constant, "
	 "which the driver does not tell",
		make_unknown_function},
	{"it has code that needs more of the server's memory than the client may use",
		make_account_full},
	{"it has PTX that the driver's linker refused", make_refused_text},
	{"the driver refused code whose variables were placed", make_refused_code},
	{"it has code that refers to its variables in an unknown way", make_unknown_code},
	{"it has linked code that keeps addresses of functions", make_functions},
	{"its kernels may have memory of the device heap", make_heap},
	{"its constants take more than 1 MiB", make_constants},
	{"its constants were written just before the fault", make_lost_constants},
	{"it links code", make_linker_under_way},
	{"it makes a graph", begin_graph},
	{"a graph uses variables of code that was unloaded", make_graph_of_unloaded_code},
	{"the change of a graph has failed", make_failed_change},
	{"a graph uses memory that was freed", make_freed_memory},
	{"a graph that it has destroyed still runs", make_running_graph},
	{"the record of its objects has no space", make_full_record},
	{"it has an error that its client does not know yet", make_late_error},
	{"output of its kernels has not been taken", make_output},
	{"the contents of its arrays take more than a quarter of the free host memory",
		make_large_array},
	{"the contents of its arrays stay behind", make_fault},
	{"it uses memory of a client that has ended", make_ended_share},
	{"a graph uses a shared event that was destroyed", make_ended_event},
	{"a file of its registered host memory has become smaller", make_smaller_file},
	{"it has compressed memory", make_compressed},
	{"its evicted memory takes more than half of the free host memory", make_evicted},
	{"a trace of it runs", make_trace},
	{"the fault has met a call of it", make_lost_launch},
};

/* What a row has set without an object. */
static void reset(void)
{
	fault_forget();
	empty_account();
	session()->trace = NULL;
	session()->devices[0]->arena.away = 0;
	session()->text->n_bytes = 0;
	cuda.cuLinkComplete = real.cuLinkComplete;
	cuda.cuLibraryLoadData = real.cuLibraryLoadData;
	session()->has_lost = false;
	(void)harness_late_error();
	fake_switches.is_busy = false;
}

static void test_rows(void **state)
{
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *reason;

		assert_int_equal(open_session(state), 0);
		real = cuda;
		assert_null(session_stays(session()));
		rows[i].make();
		reason = session_stays(session());
		if (!reason || strcmp(reason, rows[i].reason) != 0)
			fail_msg("%s: %s", rows[i].reason, reason ? reason : "it moves");
		reset();
		close_session(state);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
