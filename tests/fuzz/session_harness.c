/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The harness: what client_conn.c and the client library do around a session, without
 * processes.
 */

#include "session_harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fake_cuda.h"
#include "client/transport/call.h"
#include "server/util/account.h"
#include "server/session/fault.h"
#include "server/device/device.h"
#include "server/device/device_quota.h"
#include "server/schedule/deferred.h"
#include "server/schedule/quiet.h"
#include "server/schedule/stream_pool.h"
#include "server/share/green.h"
#include "server/bound.h"
#include "server/worker.h"

#define PATIENCE_MS 2000

struct harness harness;

static bool has_worker;

static void on_news(void *arg)
{
	(void)arg;
}

static void sleep_some(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* An assertion that stops fuzzers, in every build. */
static void must(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "harness: %s\n", what);
		abort();
	}
}

static void start_once(void)
{
	static bool is_started;

	if (is_started)
		return;
	is_started = true;
	fake_cuda_start();
	must(deferred_start() == 0, "no thread");
}

int harness_try_open(void)
{
	static uint32_t last_id;
	int fds[FRAME_WELCOME_FDS], ends[2], r;

	start_once();
	fault_forget();
	r = session_new(++last_id, NULL, bound_met, &harness.session, fds);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < FRAME_WELCOME_FDS; i++)
		close(fds[i]);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "no sockets");
	harness.session->connection = ends[0];
	harness.session->pid = getpid();
	harness.session->on_news = on_news;
	harness.client = ends[1];
	harness.late_errors = 0;
	ring_sender_init(&harness.sender, harness.session->ring, harness.session->page);
	has_worker = false;
	return 0;
}

void harness_open(bool with_worker)
{
	must(harness_try_open() == 0, "no session");
	if (with_worker)
		harness_start_worker();
}

void harness_start_worker(void)
{
	has_worker = true;
	must(session_start(harness.session) == 0, "no worker");
}

/* The deferred thread frees libraries, arrays, textures and graphs when no session has work. */
static void wait_for_deferred(void)
{
	for (int i = 0; i < PATIENCE_MS * 10; i++) {
		struct fake_counts now = fake_counts_now();

		if (now.libraries + now.arrays + now.textures + now.greens + now.execs +
					now.graphs ==
				(int)greens_kept() &&
			quota_used(resource_of_server(RESOURCE_HOST_MEMORY)) == 0)
			return;
		sleep_some();
	}
}

void harness_close(void)
{
	struct session *session = harness.session;
	struct fake_counts left;

	for (int i = 0; has_worker && !atomic_load(&session->is_done); i++) {
		session_end(session);
		sleep_some();
		must(i < PATIENCE_MS * 10, "the worker does not end");
	}
	if (has_worker) {
		pthread_join(session->thread, NULL);
	} else {
		session_end(session);
		session_clean_up(session);
	}
	close(session->connection);
	close(harness.client);
	device_quotas_unref(session);
	session_free(session);
	harness.session = NULL;
	wait_for_deferred();
	left = fake_counts_now();
	/* The server keeps them. */
	left.contexts = 0;
	left.streams -= (int)device_get(0)->stream_pool->n;
	left.greens -= (int)greens_kept();
	for (uint32_t i = 0; i < devices_count(); i++)
		left.events -= device_get(i)->quiet->context ? 2 : 0;
	must(memcmp(&left, &(struct fake_counts){0}, sizeof(left)) == 0,
		"the session left something in the driver");
	must(quota_used(resource_of_server(RESOURCE_HOST_MEMORY)) == 0,
		"the session left something in its account");
}

int harness_serve(void)
{
	int r;

	do
		r = worker_fetch(harness.session);
	while (r > 0);
	return r;
}

void harness_say_done(void)
{
	for (uint32_t i = 0; i < STREAMS_MAX; i++)
		shm_store64(&harness.session->ring->done[i], UINT64_MAX);
	for (uint32_t i = 0; i < GRAPH_CALLS; i++)
		shm_store64(&harness.session->ring->graph_done[i], UINT64_MAX);
}

void harness_fill_ring(const uint8_t *bytes, size_t size, uint32_t tail)
{
	struct ring_control __shm *control = harness.session->ring;

	shm_copy_in(ring_data(control), bytes, MIN(size, RING_SIZE));
	shm_store32(&control->tail, tail);
}

void harness_send_memory(uint64_t address, uint64_t size, int fd)
{
	struct frame_memory frame = {.address = address, .size = size};

	frame_init(&frame, FRAME_MEMORY, 1);
	must(frame_send(harness.client, &frame, &fd, PATIENCE_MS) == 0, "no room for a frame");
}

int harness_read_memory(uint64_t address, uint64_t size)
{
	_cleanup_(frame_reader_fini) struct frame_reader reader;
	const struct frame_memory *frame = (const void *)reader.bytes;

	frame_reader_init(&reader, frame_close_fd);
	must(frame_read_wait(&reader, harness.client, PATIENCE_MS) == 0 &&
			frame->head.type == FRAME_MEMORY && frame->address == address &&
			frame->size == size,
		"no such frame");
	return frame_take_fd(&reader, 0);
}

void harness_send_image(const void *data, size_t size)
{
	struct frame_image frame = {0};
	int fd;

	must(shm_create_image("image", data, size, &fd) == 0, "no image");
	frame_init(&frame, FRAME_IMAGE, 1);
	frame.size = size;
	must(frame_send(harness.client, &frame, &fd, PATIENCE_MS) == 0, "image not sent");
	close(fd);
}

static int push(struct message_head *msg, uint32_t msg_size, const struct ring_part *tails,
	unsigned n_tails)
{
	struct ring_part parts[5] = {{msg, msg_size}};

	for (unsigned i = 0; i < n_tails; i++)
		parts[1 + i] = tails[i];
	return ring_push(&harness.sender, parts, 1 + n_tails, PATIENCE_MS, NULL, NULL);
}

CUresult call_post(struct message_head *msg, uint32_t msg_size, const struct ring_part *tails,
	unsigned n_tails)
{
	msg->reply = 0;
	return push(msg, msg_size, tails, n_tails) == 0 ? CUDA_SUCCESS : CUDA_ERROR_MPS_RPC_FAILURE;
}

CUresult call_ask(struct message_head *msg, uint32_t msg_size, const struct ring_part *tails,
	unsigned n_tails, void *ret_fixed, uint32_t fixed_size, void *ret_tail, uint32_t tail_max,
	uint32_t *ret_tail_size)
{
	const struct reply_head __shm *reply = &harness.session->page->reply[0].head;
	const struct reply_head *head = shm_settled(reply);

	msg->reply = 1;
	if (push(msg, msg_size, tails, n_tails) < 0)
		return CUDA_ERROR_MPS_RPC_FAILURE;
	for (int i = 0; shm_load32(&reply->seq) != msg->seq; i++) {
		if (!has_worker && harness_serve() < 0)
			return CUDA_ERROR_MPS_RPC_FAILURE;
		if (i > PATIENCE_MS * 10)
			return CUDA_ERROR_MPS_RPC_FAILURE;
		if (has_worker)
			sleep_some();
	}
	if (head->result != CUDA_SUCCESS) {
		if (ret_fixed && head->size == fixed_size)
			memcpy(ret_fixed, head + 1, fixed_size);
		return (CUresult)head->result;
	}
	must(head->size >= fixed_size && head->size - fixed_size <= tail_max, "size of a reply");
	if (ret_fixed)
		memcpy(ret_fixed, head + 1, fixed_size);
	if (ret_tail)
		memcpy(ret_tail, (const uint8_t *)(head + 1) + fixed_size, head->size - fixed_size);
	if (ret_tail_size)
		*ret_tail_size = head->size - fixed_size;
	return CUDA_SUCCESS;
}

CUresult harness_late_error(void)
{
	uint64_t error = shm_load64(&harness.session->page->error);

	if ((uint32_t)(error >> 32) == harness.late_errors)
		return CUDA_SUCCESS;
	harness.late_errors = (uint32_t)(error >> 32);
	shm_store32(&harness.session->ring->errors_taken, harness.late_errors);
	return (CUresult)(uint32_t)error;
}

bool harness_wait(uint32_t stream, uint64_t value)
{
	const uint64_t __shm *seqno = &harness.session->page->timeline[stream];

	for (int i = 0; i < PATIENCE_MS * 10; i++) {
		if (!has_worker)
			harness_serve();
		if (shm_load64(seqno) >= value)
			return true;
		if (has_worker)
			sleep_some();
	}
	return false;
}
