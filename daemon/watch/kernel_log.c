/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the kernel's log. Loop thread.
 *
 * Invariant: at most LOG_BATCH reads happen at once, and at most one line is
 * kept.
 */

#include "kernel_log.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "faults.h"
#include "daemon/state/daemon.h"

#define LOG_BATCH 64

/* How often a file is checked, as files signal no events. */
#define CHECK_MS 50

static void on_kernel_line(struct daemon *daemon, const char *line)
{
	struct kernel_log *log = daemon->kernel_log;
	struct seen_xid *seen;
	struct xid xid;

	if (!xid_parse(line, &xid) || (xid.address == 0 && xid.number != XID_EXCEPTION))
		return;
	/* Keeps an Xid until a server reports its fault. */
	if (faults_on_xid(daemon, &xid))
		return;
	/* An exception causes many lines, which displace no line with an address. */
	seen = xid.address ? &log->seen[log->n_seen++ % XIDS_KEPT]
			   : &log->seen_plain[log->n_seen_plain++ % XIDS_KEPT];
	*seen = (struct seen_xid){.ms = uv_now(&daemon->loop), .xid = xid};
}

/* Handles complete lines; the rest begins the next line. */
static void take_kernel_lines(struct daemon *daemon)
{
	struct kernel_log *log = daemon->kernel_log;
	char *begin = log->text, *end;

	while ((end = memchr(begin, '\n', log->n - (size_t)(begin - log->text)))) {
		*end = '\0';
		if (!log->is_skipping)
			on_kernel_line(daemon, begin);
		log->is_skipping = false;
		begin = end + 1;
	}
	log->n -= (size_t)(begin - log->text);
	memmove(log->text, begin, log->n);
	if (log->n == KERNEL_RECORD_MAX) {
		log->is_skipping = true;
		log->n = 0;
	}
}

/* A record's text ends with a newline; what follows are properties for programs. */
static void take_kernel_record(struct daemon *daemon)
{
	struct kernel_log *log = daemon->kernel_log;

	log->text[log->n] = '\0';
	log->text[strcspn(log->text, "\n")] = '\0';
	on_kernel_line(daemon, log->text);
	log->n = 0;
}

/* A truncated file is read from its beginning. */
static void check_log_rotation(const struct kernel_log *log)
{
	off_t at = lseek(log->fd, 0, SEEK_CUR);
	struct stat info;

	if (at > 0 && fstat(log->fd, &info) == 0 && info.st_size < at)
		lseek(log->fd, 0, SEEK_SET);
}

/* False: nothing more to read now. */
static bool kernel_log_read(struct daemon *daemon)
{
	struct kernel_log *log = daemon->kernel_log;
	ssize_t n = read(log->fd, log->text + log->n, KERNEL_RECORD_MAX - log->n);

	if (n < 0)
		/* After lost or too long records, the next read returns the following record. */
		return errno == EPIPE || errno == EINTR || (errno == EINVAL && log->is_records);
	if (n == 0) {
		check_log_rotation(log);
		return false;
	}
	log->n += (size_t)n;
	if (log->is_records)
		take_kernel_record(daemon);
	else
		take_kernel_lines(daemon);
	return true;
}

static void kernel_log_read_batch(struct daemon *daemon)
{
	for (int i = 0; i < LOG_BATCH && kernel_log_read(daemon); i++)
		;
}

static void on_kernel_log_readable(uv_poll_t *poll, _unused_ int status, _unused_ int events)
{
	kernel_log_read_batch(poll->data);
}

static void on_kernel_log_timer(uv_timer_t *timer)
{
	kernel_log_read_batch(timer->data);
}

static int kernel_log_open_file(const char *path, bool *ret_is_records)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	struct stat info;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &info) < 0)
		return -errno;
	if (!S_ISCHR(info.st_mode) && !S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode))
		return -EINVAL;
	/* Fails for a FIFO, which cannot seek. */
	(void)lseek(fd, 0, SEEK_END);
	*ret_is_records = S_ISCHR(info.st_mode);
	return TAKE_FD(fd);
}

void kernel_log_open(struct daemon *daemon)
{
	static struct kernel_log kernel_log;
	struct kernel_log *log = &kernel_log;
	const char *path = daemon->config.kernel_log;

	if (strcmp(path, KERNEL_LOG_NONE) == 0)
		return;
	*log = (struct kernel_log){0};
	log->fd = kernel_log_open_file(path, &log->is_records);
	if (log->fd < 0) {
		log_control(&daemon->logs,
			"Cannot read the kernel's log %s (%s): the address of a GPU fault stays "
			"unknown, and with several active clients also which of them caused it",
			path, strerror(-log->fd));
		return;
	}
	daemon->kernel_log = log;
	uv_timer_init(&daemon->loop, &log->timer);
	log->timer.data = log->poll.data = daemon;
	if (log->is_records && uv_poll_init(&daemon->loop, &log->poll, log->fd) == 0) {
		uv_poll_start(&log->poll, UV_READABLE, on_kernel_log_readable);
		return;
	}
	log->is_records = false;
	uv_timer_start(&log->timer, on_kernel_log_timer, CHECK_MS, CHECK_MS);
}

void kernel_log_close(struct daemon *daemon)
{
	struct kernel_log *log = daemon->kernel_log;

	if (!log)
		return;
	if (log->is_records)
		uv_close((uv_handle_t *)&log->poll, NULL);
	uv_close((uv_handle_t *)&log->timer, NULL);
	close(log->fd);
	daemon->kernel_log = NULL;
}
