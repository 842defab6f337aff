/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Terminates clients. Loop thread.
 *
 * Invariant: the daemon gets at least one answer to each FRAME_TERMINATE, as long as it is
 * connected.
 */

#include "terminate.h"

#include "newcomers.h"
#include "server.h"
#include "server/driver/driver.h"

void terminate_answer(struct server *server, uint64_t id, uint32_t result)
{
	struct frame_terminate frame = {0};

	frame_init(&frame, FRAME_TERMINATED, 0);
	frame.client = id;
	frame.result = result;
	control_send(server, &frame);
}

void terminate_client(struct server *server, uint64_t id)
{
	for (struct client_conn *conn = server->conns; conn; conn = conn->next)
		if (conn->id == id) {
			client_conn_terminate(conn);
			return;
		}
	if (newcomers_terminate(server, id))
		terminate_answer(server, id, CUDA_SUCCESS);
	else
		terminate_answer(server, id, CUDA_ERROR_INVALID_CONTEXT);
}

void terminate_answer_all(struct server *server)
{
	for (const struct client_conn *conn = server->conns; conn; conn = conn->next)
		if (conn->is_terminated && !conn->is_inactive)
			terminate_answer(server, conn->id, CUDA_SUCCESS);
}
