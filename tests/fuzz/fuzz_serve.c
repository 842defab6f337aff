/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzzer: messages in a row, each directly into dispatch_message() of a session that has opened its
 * GPU and has memory, a stream, a library and a kernel, so that the handlers are reached too. Each
 * row goes to a foreground session, and to a background session whose share of the SMs changes at
 * each launch.
 */

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "session_harness.h"
#include "server/device/priority.h"
#include "server/schedule/elastic.h"
#include "server/launch/launch_batch.h"
#include "send.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void furnish(void)
{
	static const char image[] = "fake image";
	struct param_layout params[8];
	uint64_t limits[16], heap, heap_size, granularity, address;
	int32_t least, greatest, attributes[16];
	uint32_t n_sms, n_params, param_bytes, prints;

	send_device_open(
		0, 0, 0, &n_sms, &heap, &heap_size, &granularity, &least, &greatest, limits);
	send_memory_alloc(0, 4096, &address);
	send_stream_create(DEVICES_MAX, 0, 0, 0);
	harness_send_image(image, sizeof(image));
	send_array_create(1, 0, 64, 16, 0, CU_AD_FORMAT_FLOAT, 1, 0, 0);
	send_array_create(2, 0, 64, 16, 0, CU_AD_FORMAT_FLOAT, 1, 0, 3);
	send_library_load(1, sizeof(image));
	send_library_kernel(1, 1, "kernel", attributes);
	send_kernel_params(1, &param_bytes, &prints, params, 8, &n_params);
}

/* A message from ring_take(): aligned, in memory of exactly its size. */
static bool serve_one(const uint8_t *data, size_t size)
{
	struct message_head *head = aligned_alloc(8, size);
	const char *why;
	int r;

	assert(head);
	memcpy(head, data, size);
	head->size = (uint32_t)size;
	head->reserved = 0;
	r = dispatch_message(harness.session, head, &harness.session->reply, &why);
	/* As the worker, before the memory of the message gets another one. */
	launch_batch_flush(harness.session);
	free(head);
	return r == 0;
}

static void serve_all(const uint8_t *data, size_t size, int32_t priority)
{
	bool is_fine = true;

	harness_open(false);
	harness.session->limits.priority = priority;
	harness_say_done();
	furnish();
	/* Its image never comes: the fuzzer does not test that wait. */
	close(harness.client);
	harness.client = dup(harness.session->connection);
	while (is_fine && size >= sizeof(struct message_head)) {
		uint32_t length;

		memcpy(&length, data, sizeof(length));
		length = MAX(ALIGN_UP(length % MESSAGE_MAX, MESSAGE_ALIGN),
			(uint32_t)sizeof(struct message_head));
		length = MIN(length, (uint32_t)(size & ~(size_t)7));
		is_fine = serve_one(data, length);
		data += length;
		size -= length;
	}
	harness_close();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	setenv("MPS_TEST", "shares", 1);
	elastic_init();
	serve_all(data, size, PRIORITY_NORMAL);
	serve_all(data, size, PRIORITY_BACKGROUND);
	return 0;
}
