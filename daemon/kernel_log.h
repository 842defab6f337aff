/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_LOG_H
#define KERNEL_LOG_H

/*
 * The kernel's log, /dev/kmsg or the file that MPS_KERNEL_LOG names, from the
 * daemon's start on. Nothing waits for it. Loop thread.
 */

#include <uv.h>

#include "xid.h"

struct daemon;

/* A record of /dev/kmsg has at most so many bytes; a longer line is no record. */
#define KERNEL_RECORD_MAX 8192

/* Faults come in crowds, as each engine has its own. */
#define XIDS_KEPT 16

struct kernel_log {
	int fd;           /* negative: it cannot be read */
	bool is_records;  /* a read gives one whole record */
	bool is_skipping; /* the rest of a line that was too long */
	uv_poll_t poll;   /* of records */
	uv_timer_t timer; /* of anything else */
	size_t n;
	char text[KERNEL_RECORD_MAX + 1];
	struct {
		uint64_t ms; /* 0: none */
		struct xid xid;
	} seen[XIDS_KEPT];
	unsigned n_seen;
};

/* Without a log to read the daemon does all the same; control.log says why there is none. */
void kernel_log_open(struct daemon *daemon);
void kernel_log_close(struct daemon *daemon);

static inline bool kernel_log_is_open(const struct kernel_log *log)
{
	return log->fd >= 0;
}

#endif
