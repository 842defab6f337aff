/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A message that a fault has met, of a client that the fault spares: it stays in the ring, for the
 * next server, and nothing of its failure is left. Over the counting driver.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "cuda_api.h"
#include "dispatch.h"
#include "messages.h"
#include "open_session.h"
#include "server/session/fault.h"
#include "server/session/recv_fd.h"
#include "server/session/session_part.h"
#include "server/driver/driver.h"
#include "server/schedule/launching.h"
#include "server/graph/graph.h"
#include "server/worker.h"

enum {
	GRAPH = 5,
	LIBRARY = 6,
};

static const char code[] = ".version 7.0\n.target sm_75\n.address_size 64\n";

static struct cuda_api real;
static uint64_t memory;

static void make(void)
{
	uint32_t error_node;

	assert_int_equal(send_memory_alloc(0, 4096, &memory), CUDA_SUCCESS);
	send_graph_begin(GRAPH, 0);
	send_graph_fill(GRAPH, 0, memory, 0, 4, 16, 0, 1);
	assert_int_equal(send_graph_instantiate(GRAPH, 1, 0, &error_node), CUDA_SUCCESS);
	assert_int_equal(harness_serve(), 0);
}

static void change_node(void)
{
	send_graph_fill(GRAPH, 0, memory, 0, 4, 8, 0, 1);
}

static void disable_node(void)
{
	send_graph_enable(GRAPH, 0, 0);
}

/* The call fails because another session has met the fault. */
static CUresult meet_fault(void)
{
	(void)fault_note(harness.session, CUDA_ERROR_ILLEGAL_ADDRESS);
	return CUDA_ERROR_MPS_RPC_FAILURE;
}

static CUresult fail_change(_unused_ CUgraphExec exec, _unused_ CUgraphNode node,
	_unused_ const CUDA_MEMSET_NODE_PARAMS *params, _unused_ CUcontext context)
{
	return meet_fault();
}

static CUresult fail_enable(
	_unused_ CUgraphExec exec, _unused_ CUgraphNode node, _unused_ unsigned is_enabled)
{
	return meet_fault();
}

static void break_driver(void)
{
	cuda.cuGraphExecMemsetNodeSetParams = fail_change;
	cuda.cuGraphNodeSetEnabled = fail_enable;
}

static const struct row {
	const char *name;
	void (*send)(void);
	uint16_t op;
	bool is_late; /* another session has noted the fault; otherwise the message notes it */
} rows[] = {
	{"a change of a node", change_node, OP_GRAPH_FILL, false},
	{"a change of a node during a fault", change_node, OP_GRAPH_FILL, true},
	{"a node that is disabled during a fault", disable_node, OP_GRAPH_ENABLE, true},
};

/* It is the next message of the ring, and has left no error. */
static void expect_put_back(const struct row *row)
{
	struct session *session = harness.session;
	const struct graph *graph = handle_get(&session->graphs, GRAPH);
	const struct message_head *head;

	if (!atomic_load(&session->is_held) || ring_take(&session->receiver, &head) != 1 ||
		head->op != row->op)
		fail_msg("%s was not put back", row->name);
	assert_int_equal(graph->result, CUDA_SUCCESS);
	assert_int_equal(shm_load32(&session->page->fault), CUDA_SUCCESS);
	assert_int_equal(harness_late_error(), CUDA_SUCCESS);
}

static void test_rows(void **state)
{
	/* Its work has caused the fault. */
	struct launching launching = {.is_on = true};
	struct session other = {.launching = &launching};

	launching.session = &other;
	for (unsigned i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(open_session(state), 0);
		make();
		launching_join(&other);
		real = cuda;
		if (rows[i].is_late)
			break_driver();
		else
			fake_switches.fail_next = CUDA_ERROR_ILLEGAL_ADDRESS;
		rows[i].send();
		assert_int_equal(worker_fetch(harness.session), 1);
		expect_put_back(&rows[i]);
		cuda = real;
		fault_forget();
		launching_part.end(&other, false);
		launching.is_listed = false;
		close_session(state);
	}
}

/* The next server executes it with the descriptor that has come with it. */
static void test_descriptor(void **state)
{
	struct launching launching = {.is_on = true};
	struct session other = {.launching = &launching};
	struct session *session = harness.session;
	const struct message_head *head;
	const char *why = "";

	(void)state;
	launching.session = &other;
	launching_join(&other);
	fake_switches.fail_next = CUDA_ERROR_ILLEGAL_ADDRESS;
	harness_send_image(code, sizeof(code));
	assert_int_equal(send_library_load(LIBRARY, sizeof(code)), CUDA_ERROR_MPS_RPC_FAILURE);
	assert_true(atomic_load(&session->is_held));
	assert_true(session->recv_fd->fd >= 0);
	launching_part.end(&other, false);
	fault_forget();
	assert_int_equal(ring_take(&session->receiver, &head), 1);
	assert_int_equal(dispatch_message(session, head, &session->reply, &why), 0);
	assert_int_equal(session->reply.result, CUDA_SUCCESS);
	assert_non_null(handle_get(&session->libraries, LIBRARY));
	assert_int_equal(session->recv_fd->fd, -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test_setup_teardown(test_descriptor, open_session, close_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
