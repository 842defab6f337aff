/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cuLogs*: failed calls, and the errors and warnings of this library, in place of
 * the driver's log lines. Any thread of the application; before cuInit() too.
 *
 * Invariant: the kept lines have consecutive numbers, the newest last, and at most
 * LOGS_BYTES in total.
 */

#include "logs.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "calls_util.h"
#include "descriptor.h"
#include "lock.h"

/* The same as in the driver. */
#define LOGS_BYTES 25600u

/* The limits of kept lines and of registered callbacks. */
#define LINES_MAX 512u
#define LISTENERS_MAX 16u

/*
 * A line says that other lines are missing. If the buffer is too small, that line
 * is the driver's.
 */
#define NOTICE_BYTES 128u
#define NO_SPACE                                                                                   \
	"The provided buffer is not large enough to hold all messages. "                           \
	"Some messages will be missing\n"

struct listener {
	CUlogsCallback callback;
	void *data;
	uint64_t number; /* the handle; 0: unused */
};

static struct lock logs_lock = LOCK_INIT(CLIENT_LOGS);
static char *lines[LINES_MAX]; /* line n at n % LINES_MAX, with its newline */
static unsigned first, next;   /* number of the oldest kept line; number of the next line */
static size_t n_bytes;
static struct listener listeners[LISTENERS_MAX];
static uint64_t last_listener;
static _Thread_local bool is_in_callback;

/* Each line also goes to CUDA_LOG_FILE; the variable is read at the first line. */
static bool is_file_known;
static struct descriptor file = {.fd = -EBADF}; /* none: no file */
static const struct descriptor *to_file = &file;

void logs_forked(void)
{
	logs_lock = (struct lock)LOCK_INIT(CLIENT_LOGS);
}

/* Under the lock. */
static void forget_first(void)
{
	char **line = &lines[first++ % LINES_MAX];

	n_bytes -= strlen(*line);
	free(*line);
	*line = NULL;
}

/* Under the lock. */
static void open_log_file(void)
{
	const char *name = secure_getenv("CUDA_LOG_FILE");

	is_file_known = true;
	if (!name || !*name)
		return;
	if (!strcmp(name, "stdout"))
		to_file = descriptor_standard(STDOUT_FILENO);
	else if (!strcmp(name, "stderr"))
		to_file = descriptor_standard(STDERR_FILENO);
	else
		descriptor_note(&file,
			descriptor_raise(open(
				name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644)));
}

/* Under the lock. The driver's format, but in UTC, so that no time zone has to be read. */
static void keep_line(enum log_level level, const char *text)
{
	struct timespec now;
	unsigned second;
	char *line;
	int n;

	clock_gettime(CLOCK_REALTIME, &now);
	second = (unsigned)(now.tv_sec % (24l * 60 * 60));
	n = asprintf(&line, "[%02u:%02u:%02u.%03u][%lu][CUDA][%c] %s\n", second / 3600,
		second / 60 % 60, second % 60, (unsigned)(now.tv_nsec / 1000000), pthread_self(),
		level == LOG_ERROR ? 'E' : 'W', text);

	if (n < 0)
		return;
	if (next - first == LINES_MAX)
		forget_first();
	if (!is_file_known)
		open_log_file();
	(void)descriptor_write(to_file, line, (size_t)n); /* a failure cannot be reported */
	lines[next++ % LINES_MAX] = line;
	n_bytes += (size_t)n;
	while (n_bytes > LOGS_BYTES)
		forget_first();
}

/*
 * Calls the callbacks without the lock: a callback may unregister, or log lines for
 * which it is not called.
 */
void logs_add(enum log_level level, const char *text)
{
	struct listener called[LISTENERS_MAX];
	CUlogLevel its_level = level == LOG_ERROR ? CU_LOG_LEVEL_ERROR : CU_LOG_LEVEL_WARNING;

	lock_take(&logs_lock);
	keep_line(level, text);
	memcpy(called, listeners, sizeof(called));
	lock_release(&logs_lock);
	if (is_in_callback)
		return;
	is_in_callback = true;
	for (unsigned i = 0; i < LISTENERS_MAX; i++)
		if (called[i].number)
			called[i].callback(called[i].data, its_level, (char *)text, strlen(text));
	is_in_callback = false;
}

CUresult local_cuLogsRegisterCallback(
	CUlogsCallback callbackFunc, void *userData, CUlogsCallbackHandle *callback_out)
{
	struct listener *free_place = NULL;
	uint64_t number = 0;

	lock_take(&logs_lock);
	for (unsigned i = 0; i < LISTENERS_MAX && !free_place; i++)
		if (!listeners[i].number)
			free_place = &listeners[i];
	if (free_place) {
		number = ++last_listener;
		*free_place = (struct listener){callbackFunc, userData, number};
	}
	lock_release(&logs_lock);
	if (!free_place)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (callback_out)
		*callback_out = (CUlogsCallbackHandle)(uintptr_t)number; /* NOLINT: a number */
	return CUDA_SUCCESS;
}

CUresult local_cuLogsUnregisterCallback(CUlogsCallbackHandle callback)
{
	bool is_there = false;

	lock_hold(&logs_lock);
	for (unsigned i = 0; i < LISTENERS_MAX && callback; i++)
		if (listeners[i].number == (uintptr_t)callback) {
			listeners[i].number = 0;
			is_there = true;
		}
	return is_there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult local_cuLogsCurrent(CUlogIterator *iterator_out, unsigned int flags)
{
	(void)flags; /* the driver accepts any flags */
	if (!iterator_out)
		return CUDA_ERROR_INVALID_VALUE;
	lock_hold(&logs_lock);
	*iterator_out = next;
	return CUDA_SUCCESS;
}

/*
 * Under the lock. Copies as many of the newest lines from number `from' on as fit,
 * after a notice if lines are missing. Returns the number of bytes, without a NUL;
 * 0 if nothing fits or there are no lines.
 */
static size_t gather_lines(unsigned from, char *buffer, size_t space)
{
	unsigned n_wanted = next - from, n = MIN(n_wanted, next - first);
	size_t size = 0, all = 0;
	bool has_space;
	int notice = 0;

	for (unsigned i = next - n; i != next; i++)
		all += strlen(lines[i % LINES_MAX]);
	has_space = all <= space;
	if (n < n_wanted || !has_space) {
		space -= MIN(space, NOTICE_BYTES);
		while (n > 0 && all > space)
			all -= strlen(lines[(next - n--) % LINES_MAX]);
		if (n == 0)
			return 0;
		notice = has_space ? snprintf(buffer, NOTICE_BYTES,
					     "[%u earlier messages are missing]\n", n_wanted - n)
				   : snprintf(buffer, NOTICE_BYTES, NO_SPACE);
	}
	size = (size_t)notice;
	for (unsigned i = next - n; i != next; i++) {
		size_t length = strlen(lines[i % LINES_MAX]);

		memcpy(buffer + size, lines[i % LINES_MAX], length);
		size += length;
	}
	return size;
}

/* Copies lines from *iterator on and advances it. CUDA_ERROR_INVALID_VALUE: no line fits. */
static CUresult take_lines(CUlogIterator *iterator, char *buffer, size_t *size)
{
	bool is_any;

	lock_hold(&logs_lock);
	if (iterator && *iterator > next)
		*iterator = next; /* not a value that this library returned */
	is_any = iterator ? *iterator != next : next != 0;
	*size = is_any ? gather_lines(iterator ? *iterator : 0, buffer, *size) : 0;
	if (iterator && (*size > 0 || !is_any))
		*iterator = next;
	return is_any && *size == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult local_cuLogsDumpToMemory(
	CUlogIterator *iterator, char *buffer, size_t *size, unsigned int flags)
{
	size_t space;
	CUresult result;

	if (!buffer || !size || *size == 0 || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	space = *size - 1;
	result = take_lines(iterator, buffer, &space);
	/* Like the driver, leave the buffer unchanged if there are no lines. */
	if (space > 0 || result != CUDA_SUCCESS)
		buffer[space] = '\0';
	*size = space;
	return result;
}

CUresult local_cuLogsDumpToFile(CUlogIterator *iterator, const char *pathToFile, unsigned int flags)
{
	_cleanup_(descriptor_close) struct descriptor dump = {.fd = -EBADF};
	char bytes[LOGS_BYTES + NOTICE_BYTES];
	size_t size = sizeof(bytes);

	descriptor_note(&dump, descriptor_raise(open(pathToFile,
				       O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0644)));
	if (dump.fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	(void)take_lines(iterator, bytes, &size);
	return descriptor_write(&dump, bytes, size) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
