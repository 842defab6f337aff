/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVERY_KIND_H
#define EVERY_KIND_H

/*
 * One of each kind of object that a session can have, created by messages over the
 * counting driver. `i' counts the objects of a kind from 0. every_kind_prepare() creates
 * once what they need besides. A result is what the client gets, at once or later.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "managed_cubin.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

#define KIND_CHUNK ((uint64_t)2 << 20)
/* IDs of objects that others need, and of the objects of each kind. */
#define KIND_STREAM (DEVICES_MAX + 1)
#define KIND_BASE 51u
#define KIND_MIPMAP 52u
#define KIND_FIRST 100u

static struct {
	uint64_t memory;  /* on the GPU */
	uint64_t region;  /* a region of addresses */
	uint64_t host;    /* a region of the host space */
	uint32_t n_nodes; /* nodes of the graph */
	int file;
} kind;

static CUresult settle_kind(CUresult result)
{
	if (result == CUDA_SUCCESS)
		harness_serve();
	return result == CUDA_SUCCESS ? harness_late_error() : result;
}

/* Drops the memories that the server has sent. */
static void drop_frames(void)
{
	char bytes[512], control[CMSG_SPACE(64 * sizeof(int))];
	struct iovec part = {bytes, sizeof(bytes)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control};

	for (;;) {
		message.msg_controllen = sizeof(control);
		if (recvmsg(harness.client, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
			return;
		for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head;
			head = CMSG_NXTHDR(&message, head))
			for (size_t at = 0; at + CMSG_LEN(0) < head->cmsg_len; at += sizeof(int)) {
				int fd;

				memcpy(&fd, CMSG_DATA(head) + at, sizeof(fd));
				close(fd);
			}
	}
}

/* ---- objects that others need; creating them may fail */

static const char kind_image[] = ".version 8.0 // an image";

static CUresult load_kind(uint32_t library, const void *image, size_t size)
{
	harness_send_image(image, size);
	return send_library_load(library, size);
}

static void make_file(void)
{
	kind.file = memfd_create("every-kind", MFD_CLOEXEC);
	if (kind.file < 0 || ftruncate(kind.file, 4096) < 0 || pwrite(kind.file, "x", 1, 0) != 1)
		abort();
}

/* For an open session. Whether everything was created. */
static bool every_kind_prepare(void)
{
	uint64_t size, start, span;
	uint32_t granted, is_pinned;
	int32_t attributes[16];
	CUresult result;

	memset(&kind, 0, sizeof(kind));
	make_file();
	result = send_memory_alloc(0, KIND_CHUNK, &kind.memory);
	if (result == CUDA_SUCCESS)
		result = load_kind(KIND_BASE, kind_image, sizeof(kind_image));
	if (result == CUDA_SUCCESS)
		result = send_library_kernel(KIND_BASE, KIND_BASE, "kernel", attributes);
	send_stream_create(KIND_STREAM, 0, 1, 0);
	send_event_create(KIND_BASE, 0);
	if (result == CUDA_SUCCESS)
		result = send_array_create(KIND_BASE, 0, 16, 1, 0, CU_AD_FORMAT_FLOAT, 1, 0, 0);
	if (result == CUDA_SUCCESS)
		result = send_array_create(KIND_MIPMAP, 0, 16, 16, 0, CU_AD_FORMAT_FLOAT, 1, 0, 3);
	if (result == CUDA_SUCCESS)
		result = send_linker_create(KIND_BASE, 0, 0, 0, NULL, 0);
	if (result == CUDA_SUCCESS)
		result = send_address_region(1 << 30, &kind.region, &size);
	if (result == CUDA_SUCCESS)
		result = send_allocation_create(KIND_BASE, 0, KIND_CHUNK, 0, 0, &granted);
	if (result == CUDA_SUCCESS)
		result = send_host_region(1, 0, 0, &kind.host, &size);
	drop_frames();
	if (result == CUDA_SUCCESS)
		result = send_host_alloc(100, 0, &start, &start, &span, &is_pinned);
	send_graph_begin(KIND_BASE, 0);
	return settle_kind(result) == CUDA_SUCCESS;
}

static void every_kind_end(void)
{
	close(kind.file);
}

/* ---- the kinds */

static CUresult make_event(uint32_t i)
{
	return settle_kind(send_event_create(KIND_FIRST + i, 0));
}

/* Far apart, so that each needs a page of the table. */
static CUresult make_far_event(uint32_t i)
{
	return settle_kind(send_event_create((KIND_FIRST + i * 1024) % WIRE_EVENTS_MAX, 0));
}

static CUresult make_shared_event(uint32_t i)
{
	uint64_t token[2];
	CUresult result = make_event(i);

	return result == CUDA_SUCCESS ? send_ipc_event_export(KIND_FIRST + i, 0, token) : result;
}

/* With work, for which the server creates the driver's stream. */
static CUresult make_stream(uint32_t i)
{
	CUresult result;

	if (KIND_FIRST + i >= WIRE_STREAMS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	result = settle_kind(send_stream_create(KIND_FIRST + i, 0, 1, 0));
	return result == CUDA_SUCCESS
		       ? settle_kind(send_fill(KIND_FIRST + i, kind.memory, 0, 1, 1, 0, 1))
		       : result;
}

static CUresult make_library(uint32_t i)
{
	return load_kind(KIND_FIRST + i, kind_image, sizeof(kind_image));
}

static CUresult make_compiled_library(uint32_t i)
{
	static uint8_t logs[2 * WIRE_JIT_LOG_MAX];
	uint32_t refusal = 0, values[16], filled[2], length, n;
	CUresult result;

	harness_send_image(kind_image, sizeof(kind_image));
	result = send_library_compile(KIND_FIRST + i, sizeof(kind_image), 1, WIRE_JIT_LOG_MAX,
		WIRE_JIT_LOG_MAX, NULL, 0, &refusal, values, &filled[0], &filled[1], &length, logs,
		sizeof(logs), &n);
	return result == CUDA_SUCCESS ? (CUresult)refusal : result;
}

/* A text of 64 KiB, different each time. */
static CUresult make_large_library(uint32_t i)
{
	static char text[64 << 10];

	memset(text, 'x', sizeof(text) - 1);
	memcpy(text, &i, sizeof(i));
	text[0] = text[1] = text[2] = '/';
	return load_kind(KIND_FIRST + i, text, sizeof(text));
}

static CUresult make_kernel(uint32_t i)
{
	int32_t attributes[16];

	return send_library_kernel(KIND_BASE, KIND_FIRST + i, "kernel", attributes);
}

static CUresult make_variable(uint32_t i)
{
	uint64_t address, size;
	CUresult result = make_library(i);

	return result == CUDA_SUCCESS
		       ? send_library_global(KIND_FIRST + i, 0, "variable", &address, &size)
		       : result;
}

static CUresult make_managed(uint32_t i)
{
	uint64_t size;
	CUresult result = load_kind(KIND_FIRST + i, &whole, sizeof(whole));

	return result == CUDA_SUCCESS ? send_managed_measure(KIND_FIRST + i, 0, &size) : result;
}

static CUresult make_linker(uint32_t i)
{
	return send_linker_create(KIND_FIRST + i, 0, WIRE_JIT_LOG_MAX, WIRE_JIT_LOG_MAX, NULL, 0);
}

static CUresult make_linker_input(uint32_t i)
{
	static uint8_t logs[2 * WIRE_JIT_LOG_MAX];
	static char text[20000];
	uint32_t refusal = 0, filled[2], length, n;
	CUresult result;

	(void)i;
	memset(text, 'x', sizeof(text) - 1);
	harness_send_image(text, sizeof(text));
	result = send_linker_add(KIND_BASE, CU_JIT_INPUT_PTX, sizeof(text) - 1, NULL, 0, "name",
		&refusal, &filled[0], &filled[1], &length, logs, sizeof(logs), &n);
	return result == CUDA_SUCCESS ? (CUresult)refusal : result;
}

/* Instantiated, with one node. */
static CUresult make_graph(uint32_t i)
{
	uint32_t error_node;
	CUresult result;

	result = settle_kind(send_graph_begin(KIND_FIRST + i, 0));
	if (result != CUDA_SUCCESS)
		return result;
	send_graph_empty(KIND_FIRST + i, 0);
	return send_graph_instantiate(KIND_FIRST + i, 1, 0, &error_node);
}

/* Returns the error of a node. */
static CUresult ask_graph(void)
{
	uint32_t error_node;
	CUresult result = send_graph_update_result(KIND_BASE, &error_node);

	kind.n_nodes += result == CUDA_SUCCESS;
	return result;
}

static CUresult make_empty_node(uint32_t i)
{
	(void)i;
	send_graph_empty(KIND_BASE, kind.n_nodes);
	return ask_graph();
}

static CUresult make_kernel_node(uint32_t i)
{
	static const uint32_t one[3] = {1, 1, 1}, none[3];
	static uint8_t params[WIRE_PARAMS_MAX];

	/* These may be more than the kernel needs. */
	send_graph_kernel(KIND_BASE, kind.n_nodes, WIRE_CONTEXT_SHARES_MAX, KIND_BASE, one, one, 0,
		0, none, 0, 0, params, i % 2 ? FAKE_PARAM_BYTES : WIRE_PARAMS_MAX);
	return ask_graph();
}

static CUresult make_fill_node(uint32_t i)
{
	(void)i;
	send_graph_fill(KIND_BASE, kind.n_nodes, kind.memory, 0, 1, 64, 0, 1);
	return ask_graph();
}

static CUresult make_copy_node(uint32_t i)
{
	(void)i;
	send_graph_copy(
		KIND_BASE, kind.n_nodes, kind.memory, kind.memory + 4096, 64, 64, 1, 1, 64, 1, 1);
	return ask_graph();
}

static CUresult make_event_node(uint32_t i)
{
	send_graph_event(KIND_BASE, kind.n_nodes, KIND_BASE, i % 2);
	return ask_graph();
}

static CUresult make_call_node(uint32_t i)
{
	send_graph_call(KIND_BASE, kind.n_nodes, i % WIRE_GRAPH_CALLS_MAX);
	return ask_graph();
}

static CUresult make_op_node(uint32_t i)
{
	struct memory_op ops[WIRE_MEMORY_OPS_MAX];

	(void)i;
	for (unsigned k = 0; k < WIRE_MEMORY_OPS_MAX; k++)
		ops[k] = (struct memory_op){kind.memory, k, CU_STREAM_MEM_OP_WRITE_VALUE_32, 0};
	send_graph_memory_ops(KIND_BASE, kind.n_nodes, ops, WIRE_MEMORY_OPS_MAX);
	return ask_graph();
}

static CUresult make_edges(uint32_t i)
{
	static struct graph_edge edges[1024];
	CUresult result = CUDA_SUCCESS;
	uint32_t error_node;

	for (uint32_t k = 0; k < 2 && i == 0 && result == CUDA_SUCCESS; k++)
		result = make_empty_node(k);
	if (result != CUDA_SUCCESS)
		return result;
	for (unsigned k = 0; k < ARRAY_SIZE(edges); k++)
		edges[k] = (struct graph_edge){.from = 0, .to = 1};
	send_graph_edges(KIND_BASE, edges, ARRAY_SIZE(edges));
	return send_graph_update_result(KIND_BASE, &error_node);
}

/* Launches that wait together, often enough that graphs are made of them. */
static CUresult make_batches(uint32_t i)
{
	static const uint32_t one[3] = {1, 1, 1};
	uint8_t params[FAKE_PARAM_BYTES] = {0};
	CUresult result;

	if (KIND_FIRST + i >= WIRE_STREAMS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	result = settle_kind(send_stream_create(KIND_FIRST + i, 0, 1, 0));
	for (unsigned n = 0; n < 4 && result == CUDA_SUCCESS; n++) {
		for (unsigned k = 0; k < 62; k++)
			send_launch(KIND_FIRST + i, KIND_BASE, one, one, 0, params, sizeof(params));
		result = settle_kind(CUDA_SUCCESS);
	}
	return result;
}

static CUresult make_array(uint32_t i)
{
	return send_array_create(KIND_FIRST + i, 0, 16, 1, 0, CU_AD_FORMAT_FLOAT, 1, 0, 0);
}

static CUresult make_level(uint32_t i)
{
	uint64_t size[3];

	return send_array_level(KIND_FIRST + i, KIND_MIPMAP, i % 3, size);
}

static CUresult make_texture(uint32_t i)
{
	const struct sampler sampler = {0};
	uint64_t value;

	return send_texture_create(KIND_FIRST + i, KIND_BASE, &sampler, 1, NULL, 0, &value);
}

static CUresult make_surface(uint32_t i)
{
	uint64_t value;

	return send_surface_create(KIND_FIRST + i, KIND_BASE, &value);
}

static CUresult make_green(uint32_t i)
{
	/* Sizes for which no allocation is kept. */
	return i < WIRE_GREENS_MAX
		       ? send_green_create(i, 0, WIRE_GREENS_MAX, 0, 8 + i % 3, 0, NULL, 0)
		       : CUDA_ERROR_INVALID_VALUE;
}

static CUresult make_context_share(uint32_t i)
{
	uint32_t n_sms;

	return i < WIRE_CONTEXT_SHARES_MAX ? send_context_share_create(i, 0, 1 + i % 4, &n_sms)
					   : CUDA_ERROR_INVALID_VALUE;
}

static CUresult make_chunk(uint32_t i)
{
	uint64_t address;

	(void)i;
	return send_memory_alloc(0, KIND_CHUNK, &address);
}

static CUresult make_piece(uint32_t i)
{
	uint64_t address;

	(void)i;
	return send_memory_alloc(0, 512, &address);
}

static CUresult make_allocation(uint32_t i)
{
	uint32_t granted;

	return send_allocation_create(KIND_FIRST + i, 0, KIND_CHUNK, 0, 0, &granted);
}

static CUresult make_mapping(uint32_t i)
{
	return send_allocation_map(KIND_BASE, kind.region + i * KIND_CHUNK, KIND_CHUNK);
}

/* Destroyed while a stream has work: it waits for the work, with an event. */
static CUresult make_ended_mapping(uint32_t i)
{
	CUresult result = make_mapping(i);

	if (result != CUDA_SUCCESS)
		return result;
	send_fill(KIND_STREAM, kind.memory, 0, 1, 1, 0, 1);
	fake_switches.is_busy = true;
	return settle_kind(send_allocation_unmap(kind.region + i * KIND_CHUNK, KIND_CHUNK));
}

static CUresult make_addresses(uint32_t i)
{
	uint64_t address, size;

	(void)i;
	return send_address_region(1, &address, &size);
}

static CUresult make_host_region(uint32_t i)
{
	uint64_t address, size;
	CUresult result = send_host_region(1, 0, 0, &address, &size);

	(void)i;
	drop_frames();
	return result;
}

static CUresult make_host_memory(uint32_t i)
{
	uint64_t address, start, span;
	uint32_t is_pinned;

	(void)i;
	return send_host_alloc(KIND_CHUNK, 0, &address, &start, &span, &is_pinned);
}

static CUresult make_alias(uint32_t i)
{
	uint64_t address;
	struct stat file;

	(void)i;
	if (fstat(kind.file, &file) < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	harness_send_memory(0, 4096, kind.file);
	return send_host_alias(0, file.st_dev, file.st_ino, 0, 4096, &address);
}

static CUresult make_share(uint32_t i)
{
	uint64_t token[2], address = kind.memory + (uint64_t)i * 64;

	return address < kind.memory + KIND_CHUNK ? send_ipc_memory_export(address, 64, token)
						  : CUDA_ERROR_INVALID_VALUE;
}

/* Work behind a busy stream. */
static CUresult make_watch(uint32_t i)
{
	send_fill(KIND_STREAM, kind.memory, 0, 1, 1, 0, 1);
	fake_switches.is_busy = true;
	return settle_kind(send_seqno_watch(KIND_STREAM, i + 1));
}

static CUresult make_waits(uint32_t i)
{
	struct memory_op ops[WIRE_MEMORY_OPS_MAX];

	for (unsigned k = 0; k < WIRE_MEMORY_OPS_MAX; k++)
		ops[k] = (struct memory_op){kind.memory, i + k, CU_STREAM_MEM_OP_WAIT_VALUE_64, 0};
	return settle_kind(send_memory_ops(0, ops, WIRE_MEMORY_OPS_MAX));
}

static const struct every_kind {
	const char *name;
	CUresult (*make)(uint32_t i);
	uint32_t n_max; /* the counting driver's limit, or a number that is enough */
} every_kind[] = {
	{"event", make_event, WIRE_EVENTS_MAX},
	{"event with a far number", make_far_event, 256},
	{"shared event", make_shared_event, 20000},
	{"stream", make_stream, 4000},
	{"library", make_library, 4000},
	{"library with logs", make_compiled_library, 4000},
	{"library of 64 KiB of text", make_large_library, 4000},
	{"library with a variable", make_variable, 4000},
	{"library with managed variables", make_managed, 4000},
	{"kernel", make_kernel, 200000},
	{"linker with logs", make_linker, 256},
	{"linker's input of 20 000 bytes", make_linker_input, 4000},
	{"graph with a node", make_graph, 60000},
	{"empty node", make_empty_node, 1000000},
	{"kernel node, with 16 KiB of parameters", make_kernel_node, 100000},
	{"fill node", make_fill_node, 1000000},
	{"copy node", make_copy_node, 1000000},
	{"event node", make_event_node, 1000000},
	{"host node", make_call_node, 1000000},
	{"node of 255 memory operations", make_op_node, 100000},
	{"1024 edges", make_edges, 100000},
	{"stream with batches of launches", make_batches, 64},
	{"array", make_array, 900},
	{"level of an array", make_level, 20000},
	{"texture", make_texture, 4000},
	{"surface", make_surface, 4000},
	{"green context", make_green, WIRE_GREENS_MAX},
	{"share of a context", make_context_share, WIRE_CONTEXT_SHARES_MAX},
	{"chunk of memory", make_chunk, 4000},
	{"piece of memory", make_piece, 100000},
	{"allocation without addresses", make_allocation, 100000},
	{"mapping", make_mapping, 500},
	{"mapping that waits for its end", make_ended_mapping, 500},
	{"region of addresses", make_addresses, 2000},
	{"region of host memory", make_host_region, 250},
	{"chunk of host memory", make_host_memory, 2000},
	{"file that is registered", make_alias, 200},
	{"share", make_share, 16384},
	{"sleeper", make_watch, 300},
	{"255 waits for words", make_waits, 300},
};

#endif
