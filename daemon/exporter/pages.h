/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGES_H
#define PAGES_H

/*
 * Asks the daemon for pages of metrics. The process ends when the daemon closes the connection.
 */

#include "base.h"

struct pages {
	int fd; /* not owned; the connection */
	bool is_asking;
	char *reply; /* what has come of it */
	size_t size, capacity;
	/* The daemon has replied: a page of `size' bytes, or a line that says why there is none. */
	void (*on_reply)(struct pages *pages, const char *reply, size_t size);
};

/* The connection is readable. */
void pages_read(struct pages *pages);

/* Asks, unless a reply is outstanding; on_reply() follows. */
void pages_ask(struct pages *pages);

#endif
