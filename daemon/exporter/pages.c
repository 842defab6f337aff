/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pages of metrics from the daemon.
 *
 * Invariant: at most one request has no reply.
 */

#include "pages.h"

#include <sys/socket.h>

#include "daemon/ask/control_socket.h"

/* EOT ends the reply; no page has that byte. */
static const char request[] = {"metrics\n"
			       "\x04"
			       "\n"};

static void make_space(struct pages *pages)
{
	if (pages->size < pages->capacity)
		return;
	pages->capacity = MAX(2 * pages->capacity, (size_t)65536);
	pages->reply = realloc(pages->reply, pages->capacity);
	/* The daemon starts another exporter. */
	if (!pages->reply)
		exit(EXIT_FAILURE);
}

void pages_read(struct pages *pages)
{
	ssize_t n;

	make_space(pages);
	n = recv(
		pages->fd, pages->reply + pages->size, pages->capacity - pages->size, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		exit(EXIT_SUCCESS);
	pages->size += (size_t)n;
	if (pages->reply[pages->size - 1] != COMMAND_EOT)
		return;
	n = (ssize_t)pages->size - 1;
	pages->size = 0;
	pages->is_asking = false;
	pages->on_reply(pages, pages->reply, (size_t)n);
}

void pages_ask(struct pages *pages)
{
	if (pages->is_asking)
		return;
	/* It fits into the buffer of a socket whose peer has read all earlier requests. */
	pages->is_asking = send(pages->fd, request, sizeof(request) - 1, MSG_NOSIGNAL) > 0;
}
