/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The model: a session, as messages of a client make it over the counting driver.
 *
 * Invariant: the memories of a copy are its own, so that an edited copy changes no other.
 */

#include "move_model.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_cuda.h"
#include "session_harness.h"
#include "server/record/record_file.h"
#include "server/session/session_move.h"
#include "server/stream/stream.h"
#include "server/replay.h"
#include "tests/unit/server/managed_cubin.h"
#include "send.h"

#define MIB ((uint64_t)1 << 20)
#define PINNED (2 << 20)
/* IDs. */
#define STREAM (DEVICES_MAX + 3)
#define SHARE_STREAM (DEVICES_MAX + 4)
#define GREEN_STREAM (DEVICES_MAX + 5)
#define EVENT 5u
#define PLACED 1u
#define TEXT 2u
#define GRAPH 7u

static struct {
	struct pack pack;
	uint8_t *record; /* its entries */
	size_t record_size;
	uint32_t n_images;
	uint64_t pinned_at; /* in the last file */
} model;

static void must(CUresult result)
{
	assert(result == CUDA_SUCCESS);
	(void)result;
}

static void serve(void)
{
	harness_serve();
	must(harness_late_error());
}

/* ---- the objects */

static void open_gpu(void)
{
	uint64_t heap, heap_size, granularity, limits[16];
	int32_t least, greatest;
	uint32_t n_sms;

	must(send_device_open(
		0, 0, 0, &n_sms, &heap, &heap_size, &granularity, &least, &greatest, limits));
}

static uint64_t make_memory(void)
{
	uint64_t small, large, freed;

	must(send_memory_alloc(0, 1000, &freed));
	must(send_memory_alloc(0, 4096, &small));
	must(send_memory_alloc(0, 131 * MIB, &large));
	send_memory_free(freed);
	return small;
}

static void make_host_memory(void)
{
	uint64_t region, size, address, start, span;
	uint32_t is_pinned;

	must(send_host_region(1, 0, 0, &region, &size));
	close(harness_read_memory(region, size));
	must(send_host_alloc(PINNED, 0, &address, &start, &span, &is_pinned));
	memset((void *)(uintptr_t)start, 7, span);
	must(send_host_pin(0, address));
	model.pinned_at = start - region;
}

static void make_streams(void)
{
	uint32_t n_sms;

	send_stream_create(STREAM, 0, 1, 0);
	send_stream_priority(STREAM, -1);
	must(send_context_share_create(1, 0, 2, &n_sms));
	send_context_share_stream(SHARE_STREAM, 1, 1, 0, 0);
	must(send_green_create(1, 0, WIRE_GREENS_MAX, 0, 8, 0, NULL, 0));
	send_green_stream(GREEN_STREAM, 1, 0);
	send_event_create(EVENT, CU_EVENT_DEFAULT);
	send_event_record(EVENT, STREAM, 1);
	send_event_create(EVENT + 1, CU_EVENT_DISABLE_TIMING);
	serve();
}

static void make_library(uint32_t id, const void *image, size_t size)
{
	int32_t attributes[16];

	harness_send_image(image, size);
	must(send_library_load(id, size));
	must(send_library_kernel(id, id, "kernel", attributes));
	send_kernel_set_attribute(id, 0, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 512);
}

static void make_libraries(void)
{
	static const char text[] = ".version 8.0 // an image";
	const struct cubin_file file = plain_cubin();
	uint64_t address, size;

	harness.session->limits.oversubscribe = OVERSUBSCRIBE_YES;
	make_library(PLACED, &file, sizeof(file));
	must(send_library_global(PLACED, 0, "first", &address, &size));
	must(send_library_global(PLACED, 0, "a constant", &address, &size));
	make_library(TEXT, text, sizeof(text));
	serve();
}

static void add_kernel(uint32_t graph, uint32_t node, uint32_t share, uint32_t kernel)
{
	static const uint32_t one[3] = {1, 1, 1}, none[3];
	static uint8_t params[FAKE_PARAM_BYTES];

	send_graph_kernel(
		graph, node, share, kernel, one, one, 0, 0, none, 0, 0, params, sizeof(params));
}

static void make_graphs(uint64_t memory)
{
	const struct memory_op op = {memory, 1, CU_STREAM_MEM_OP_WRITE_VALUE_32, 0};
	const struct graph_edge edges[] = {{.from = 0, .to = 1}, {.from = 1, .to = 2}};
	uint32_t error_node;

	send_graph_begin(GRAPH, 0);
	send_graph_empty(GRAPH, 0);
	add_kernel(GRAPH, 1, WIRE_CONTEXT_SHARES_MAX, PLACED);
	send_graph_fill(GRAPH, 2, memory, 0, 1, 64, 0, 1);
	send_graph_copy(GRAPH, 3, memory, memory + 2048, 64, 64, 1, 1, 64, 1, 1);
	send_graph_event(GRAPH, 4, EVENT + 1, 0);
	send_graph_call(GRAPH, 5, 0);
	send_graph_memory_ops(GRAPH, 6, &op, 1);
	send_graph_edges(GRAPH, edges, ARRAY_SIZE(edges));
	must(send_graph_instantiate(GRAPH, 7, 0, &error_node));
	add_kernel(GRAPH, 1, WIRE_CONTEXT_SHARES_MAX, PLACED);
	/* It keeps the library, and with it an ID that nothing else has. */
	send_graph_begin(GRAPH + 1, 0);
	add_kernel(GRAPH + 1, 0, 1, TEXT);
	must(send_graph_instantiate(GRAPH + 1, 1, 0, &error_node));
	send_library_unload(TEXT);
	serve();
}

/* ---- the pack */

static void keep_record(void)
{
	struct stat st;

	assert(fstat(model.pack.fds[0], &st) == 0);
	model.record_size = (size_t)st.st_size - sizeof(struct record_file_head);
	model.record = malloc(model.record_size);
	assert(model.record &&
		pread(model.pack.fds[0], model.record, model.record_size,
			sizeof(struct record_file_head)) == (ssize_t)model.record_size);
	memcpy(&model.n_images, model.pack.bytes, sizeof(model.n_images));
}

static void make_model(void)
{
	harness_open(false);
	open_gpu();
	make_libraries();
	make_streams();
	make_graphs(make_memory());
	make_host_memory();
	serve();
	assert(streams_poll(harness.session));
	assert(!session_stays(harness.session));
	assert(replay_pack(harness.session, &model.pack) == 0);
	assert(session_pack(harness.session, &model.pack) == 0);
	keep_record();
	harness_close();
}

static int copy_of(int fd)
{
	struct stat st;
	int copy;

	if (fcntl(fd, F_GET_SEALS) & F_SEAL_WRITE)
		return fcntl(fd, F_DUPFD_CLOEXEC, 0);
	copy = memfd_create("memory", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	assert(fstat(fd, &st) == 0 && copy >= 0 && ftruncate(copy, st.st_size) == 0);
	assert(fcntl(copy, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
	return copy;
}

static void copy_pack(struct pack *ret_pack)
{
	static const uint8_t bytes[PINNED];
	struct pack *pack = &model.pack;

	pack_put(ret_pack, pack->bytes, pack->size);
	pack_put_fd(ret_pack, fcntl(pack->fds[0], F_DUPFD_CLOEXEC, 0));
	for (unsigned i = 1; i < pack->n_fds; i++)
		pack_put_fd(ret_pack, copy_of(pack->fds[i]));
	/* The last one is of host memory, whose pinned pages have to be there. */
	assert(pwrite(ret_pack->fds[pack->n_fds - 1], bytes, PINNED, (off_t)model.pinned_at) ==
		PINNED);
}

static void check_model(void)
{
	struct pack pack = {0};

	copy_pack(&pack);
	harness_open(false);
	assert(replay_unpack(harness.session, &pack) == 0);
	assert(session_check(harness.session, &pack) == 0);
	assert(session_unpack(harness.session, &pack) == 0);
	pack_fini(&pack);
	assert(replay_run(harness.session));
	harness_close();
}

uint8_t *move_model_take(struct pack *ret_pack, size_t *ret_size)
{
	uint8_t *record;

	if (!model.record) {
		make_model();
		check_model();
	}
	copy_pack(ret_pack);
	record = malloc(model.record_size);
	assert(record);
	memcpy(record, model.record, model.record_size);
	*ret_size = model.record_size;
	return record;
}

uint32_t move_model_n_images(void)
{
	return model.n_images;
}
