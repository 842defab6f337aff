/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel log. Each record is one write to a file opened for appending, so that
 * records of several processes do not mix.
 */

#include "kernel_log.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/driver/stream/stream.h"

#define PAGE 4096u /* the GPU reports the page, not the byte */
#define LEVEL 6u

static void process_name(char *name, size_t size)
{
	_cleanup_close_ int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, name, size - 1) : 0;

	name[n > 0 ? n : 0] = '\0';
	name[strcspn(name, "\n")] = '\0';
}

/* The head of a record: a rising number, and the time since the start. */
static int record_begin(int fd, char *record, size_t size)
{
	struct timespec now;
	struct stat stat = {0};

	clock_gettime(CLOCK_MONOTONIC, &now);
	(void)fstat(fd, &stat);
	return snprintf(record, size, "%u,%lld,%lld,-;", LEVEL, (long long)stat.st_size,
		(long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

static void record_write(int fd, const struct stream *stream, const char *what)
{
	char record[512], name[32];
	int head = record_begin(fd, record, sizeof(record));
	int len;

	process_name(name, sizeof(name));
	len = snprintf(record + head, sizeof(record) - (size_t)head,
		"NVRM: Xid (PCI:0000:%02x:00): 31, pid=%d, name=%s, channel 0x%08x, "
		"intr 00000000. MMU Fault: %s\n",
		(unsigned)(stream->context->device->ordinal + 1) & 0xff, getpid(), name,
		8 + stream->queue, what);
	if (len > 0 && write(fd, record, strlen(record)) < 0)
		fprintf(stderr, "softgpu: SOFTGPU_KERNEL_LOG: cannot write: %s\n", strerror(errno));
}

void kernel_log_fault(const struct stream *stream, uint64_t address, bool is_write)
{
	const char *path = getenv("SOFTGPU_KERNEL_LOG");
	_cleanup_close_ int fd = -EBADF;
	char what[160];

	if (!path || !*path)
		return;
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0) {
		fprintf(stderr, "softgpu: SOFTGPU_KERNEL_LOG: cannot open %s: %s\n", path,
			strerror(errno));
		return;
	}
	address -= address % PAGE;
	snprintf(what, sizeof(what),
		"ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x%x_%08x. "
		"Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_%s",
		(unsigned)(address >> 32), (unsigned)address, is_write ? "WRITE" : "READ");
	record_write(fd, stream, what);
}
