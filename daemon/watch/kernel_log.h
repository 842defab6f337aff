/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_LOG_H
#define KERNEL_LOG_H

/*
 * The kernel's log, /dev/kmsg or the file that MPS_KERNEL_LOG names, from the
 * start of the daemon on. The daemon never waits for it. Loop thread.
 */

#include <uv.h>

#include "daemon/text/xid.h"

struct daemon;

/* The most bytes of a record of /dev/kmsg; a longer line is not a record. */
#define KERNEL_RECORD_MAX 8192

/* One fault causes several Xids, as each engine reports its own. */
#define XIDS_KEPT 16

struct seen_xid {
	uint64_t ms; /* 0: none */
	struct xid xid;
};

struct kernel_log {
	int fd;
	bool is_records;  /* each read returns one whole record */
	bool is_skipping; /* the rest of a line that was too long */
	uv_poll_t poll;   /* of records */
	uv_timer_t timer; /* of anything else */
	size_t n;
	char text[KERNEL_RECORD_MAX + 1];
	/* That no server has reported a fault for: with an address, and without. */
	struct seen_xid seen[XIDS_KEPT], seen_plain[XIDS_KEPT];
	unsigned n_seen, n_seen_plain;
};

/* Without a readable log the daemon runs all the same; control.log says why. */
void kernel_log_open(struct daemon *daemon);
void kernel_log_close(struct daemon *daemon);

#endif
