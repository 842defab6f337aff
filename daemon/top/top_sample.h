/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOP_SAMPLE_H
#define TOP_SAMPLE_H

/* What the daemon replied to `stats --json'. Any thread. */

#include <sys/types.h>

#include "base.h"

struct top_client {
	/* Together they name the client, also after the daemon was started again. */
	int64_t server, id, pid;

	uid_t uid;
	const char *group; /* NULL: none; as the next ones, within the sample's document */
	const char *server_name;
	const char *command;
	const char *kernel; /* launched last; NULL: none */
	uint64_t launches;  /* of kernels and graphs */
	uint64_t copies;    /* of all directions */
	uint64_t bytes_in, bytes_out;
	uint64_t busy_ns, yielded_ns;
	uint64_t errors;

	/* Of all its GPUs together: */
	uint64_t memory, away;        /* bytes; those that are in host memory meanwhile */
	uint64_t n_sms, n_device_sms; /* 0: it has opened no GPU */
	bool is_background;           /* `n_sms' are those of its present share */
	double slowdown;              /* the worst one, of another client; 0: not known */
};

struct top_sample {
	uint64_t time_ns;
	struct top_client *clients;
	size_t n_clients;
	uint64_t store, store_limit; /* of all servers together: evicted bytes, the most of them */
	void *document;              /* owns the texts */
};

/*
 * Reads a reply. 0; -EBADMSG: it is no such document; -ENOMEM.
 */
int top_sample_read(struct top_sample *ret, const char *text, size_t size);

void top_sample_fini(struct top_sample *sample);

#endif
