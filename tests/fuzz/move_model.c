/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The models: a session, as messages of a client make it over the counting driver. In the second
 * model, its memory has left the GPU.
 *
 * Invariant: copies share the files that no session changes. A session that ends frees the pages of
 * its host memory, so each copy has a file of its own there.
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
#include "server/session/session_part.h"
#include "server/share/eviction.h"
#include "server/share/host_store.h"
#include "server/stream/stream.h"
#include "server/memory/away.h"
#include "server/replay.h"
#include "tests/unit/server/managed_cubin.h"
#include "send.h"

#define MIB ((uint64_t)1 << 20)
#define PINNED (2 << 20)
#define UNIT (2 * MIB)
/* IDs. */
#define STREAM (DEVICES_MAX + 3)
#define SHARE_STREAM (DEVICES_MAX + 4)
#define GREEN_STREAM (DEVICES_MAX + 5)
#define EVENT 5u
#define PLACED 1u
#define TEXT 2u
#define GRAPH 7u
#define ARRAY 3u
#define MIPMAP 4u
#define LEVEL 5u

struct model {
	struct pack pack;
	uint8_t *record; /* its entries */
	size_t record_size;
	uint32_t n_images;
	uint64_t pinned_at; /* in the file of host memory, behind which is that of arrays */
};

static struct model models[2]; /* by is_away */

#define must(call) assert((call) == CUDA_SUCCESS)

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

/* A chunk of small pieces, one of two parts unless these would be copied, and one with an export.
 */
static uint64_t make_memory(bool is_away)
{
	uint64_t small, large, shared, freed, token[2];

	must(send_memory_alloc(0, 1000, &freed));
	must(send_memory_alloc(0, 4096, &small));
	must(send_memory_alloc(0, (is_away ? 3 : 131) * MIB, &large));
	must(send_memory_alloc(0, UNIT, &shared));
	must(send_ipc_memory_export(shared, MIB, token));
	must(send_memory_dmabuf(shared, UNIT));
	close(harness_read_memory(shared, UNIT));
	send_memory_free(freed);
	return small;
}

/* Another session shares its memory with this one. */
static void open_share(void)
{
	uint64_t shared, token[2], address, size;
	uint32_t device;

	must(send_memory_alloc(0, UNIT, &shared));
	must(send_ipc_memory_export(shared, UNIT, token));
	harness.session->id++;
	must(send_ipc_memory_open(token, &address, &size, &device));
	harness.session->id--;
}

static uint64_t make_host_memory(void)
{
	uint64_t region, size, address, start, span;
	uint32_t is_pinned;

	must(send_host_region(1, 0, 1, &region, &size));
	close(harness_read_memory(region, size));
	must(send_host_alloc(PINNED, 1, &address, &start, &span, &is_pinned));
	memset((void *)(uintptr_t)start, 7, span);
	must(send_host_pin(0, address));
	return start - region;
}

/* Registered memory: a few pages of a file, from the second page on. */
static void make_alias(void)
{
	static uint8_t bytes[16 << 12];
	int fd = memfd_create("alias", MFD_CLOEXEC);
	uint64_t address;
	struct stat st;

	memset(bytes, 9, sizeof(bytes));
	assert(fd >= 0 && write(fd, bytes, sizeof(bytes)) == sizeof(bytes));
	assert(fstat(fd, &st) == 0);
	harness_send_memory(4096 + 5, 8 << 12, fd);
	must(send_host_alias(0, st.st_dev, st.st_ino, 4096 + 5, 8 << 12, &address));
	close(fd);
}

static void make_mapped(uint32_t id, uint64_t address, uint64_t size, bool is_exportable)
{
	uint32_t granted;

	must(send_allocation_create(id, 0, size, is_exportable, 0, &granted));
	must(send_allocation_map(id, address, size));
	must(send_allocation_access(address, size, 0, 3));
}

/* One is exported, one has no ID any more, one is mapped nowhere, one comes from elsewhere. */
static void make_virtual(void)
{
	int fd = memfd_create("imported", MFD_CLOEXEC);
	uint32_t device, properties, granted;
	uint64_t addresses, size;

	must(send_address_region(1, &addresses, &size));
	make_mapped(1, addresses, UNIT, true);
	must(send_allocation_export(1));
	close(harness_read_memory(1, UNIT));
	make_mapped(2, addresses + UNIT, 2 * UNIT, false);
	must(send_allocation_map(2, addresses + 4 * UNIT, 2 * UNIT));
	must(send_allocation_access(addresses + 4 * UNIT, 2 * UNIT, 0, 1));
	send_allocation_release(2);
	must(send_allocation_create(3, 0, UNIT, false, 0, &granted));
	assert(fd >= 0 && ftruncate(fd, (off_t)UNIT) == 0);
	harness_send_memory(4, 0, fd);
	close(fd);
	must(send_allocation_import(4, &device, &properties));
	must(send_allocation_map(4, addresses + 8 * UNIT, UNIT));
}

static void make_arrays(uint64_t memory)
{
	const uint32_t format = CU_AD_FORMAT_FLOAT;
	const struct sampler sampler = {0};
	uint64_t value, size[3];

	must(send_array_create(ARRAY, 0, 64, 48, 0, format, 1, CUDA_ARRAY3D_SURFACE_LDST, 0));
	must(send_array_create(MIPMAP, 0, 16, 16, 0, format, 1, 0, 3));
	must(send_array_level(LEVEL, MIPMAP, 1, size));
	must(send_texture_create(1, ARRAY, &sampler, 1, NULL, 0, &value));
	must(send_texture_create(2, MIPMAP, &sampler, 1, NULL, 0, &value));
	must(send_texture_linear(3, 0, memory, format, 1, 1024, 0, 0, 4096, &sampler, 1, &value));
	must(send_surface_create(4, ARRAY, &value));
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

static void share_event(void)
{
	uint64_t token[2];

	send_event_create(EVENT + 2, CU_EVENT_DISABLE_TIMING);
	must(send_ipc_event_export(EVENT + 2, 0, token));
	must(send_ipc_event_open(EVENT + 3, token));
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

static void keep_record(struct model *model)
{
	struct stat st;

	assert(fstat(model->pack.fds[0], &st) == 0);
	model->record_size = (size_t)st.st_size - sizeof(struct record_file_head);
	model->record = malloc(model->record_size);
	assert(model->record &&
		pread(model->pack.fds[0], model->record, model->record_size,
			sizeof(struct record_file_head)) == (ssize_t)model->record_size);
	memcpy(&model->n_images, model->pack.bytes, sizeof(model->n_images));
}

static void make_model(struct model *model, bool is_away)
{
	uint64_t memory;

	setenv("MPS_OVERSUBSCRIBE_HOST", "64", 1);
	host_store_init();
	harness_open(false);
	open_gpu();
	make_libraries();
	make_streams();
	memory = make_memory(is_away);
	make_graphs(memory);
	make_arrays(memory);
	share_event();
	open_share();
	make_alias();
	make_virtual();
	model->pinned_at = make_host_memory();
	serve();
	assert(streams_poll(harness.session));
	if (is_away)
		away_leave(harness.session);
	assert((eviction_bytes(harness.session) > 0) == is_away);
	assert(!session_stays(harness.session));
	assert(replay_pack(harness.session, &model->pack) == 0);
	assert(session_pack(harness.session, &model->pack) == 0);
	keep_record(model);
	harness_close();
}

/* Another file of host memory, whose pinned pages are there. */
static int copy_host_memory(const struct model *model, int fd)
{
	static const uint8_t bytes[PINNED];
	int copy = memfd_create("memory", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	struct stat st;

	assert(fstat(fd, &st) == 0 && copy >= 0 && ftruncate(copy, st.st_size) == 0);
	assert(fcntl(copy, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
	assert(pwrite(copy, bytes, PINNED, (off_t)model->pinned_at) == PINNED);
	return copy;
}

static void copy_pack(const struct model *model, struct pack *ret_pack)
{
	const struct pack *pack = &model->pack;

	pack_put(ret_pack, pack->bytes, pack->size);
	for (unsigned i = 0; i < pack->n_fds; i++)
		pack_put_fd(ret_pack, i == pack->n_fds - 2
					      ? copy_host_memory(model, pack->fds[i])
					      : fcntl(pack->fds[i], F_DUPFD_CLOEXEC, 0));
}

static void check_model(const struct model *model)
{
	struct pack pack = {0};

	copy_pack(model, &pack);
	harness_open(false);
	assert(replay_unpack(harness.session, &pack) == 0);
	assert(session_check(harness.session, &pack) == 0);
	assert(session_unpack(harness.session, &pack) == 0);
	pack_fini(&pack);
	assert(move_model_join());
	assert(away_return(harness.session));
	assert(replay_run(harness.session));
	harness_close();
}

bool move_model_join(void)
{
	bool is_joined;

	/* The session that shares its memory is another one. */
	harness.session->id++;
	is_joined = session_parts_join(harness.session) == 0;
	harness.session->id--;
	return is_joined;
}

uint8_t *move_model_take(bool is_away, struct pack *ret_pack, size_t *ret_size)
{
	struct model *model = &models[is_away];
	uint8_t *record;

	if (!model->record) {
		make_model(model, is_away);
		check_model(model);
	}
	copy_pack(model, ret_pack);
	record = malloc(model->record_size);
	assert(record);
	memcpy(record, model->record, model->record_size);
	*ret_size = model->record_size;
	return record;
}

uint32_t move_model_n_images(bool is_away)
{
	return models[is_away].n_images;
}
