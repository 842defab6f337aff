/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The tracer. Any thread of the application; no lock is held across a call or
 * a fork.
 *
 * Invariant: `state.fd' is open from TRACE_ON until the process ends, and a
 * line is written with one write() to a file opened for appending, so lines of
 * several threads and processes never mix.
 */

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "trace.h"
#include "wire.h"

/* What a string argument shows at most. */
#define STRING_SHOWN 80

/* Room kept for the result. */
#define END_ROOM 96

uint32_t trace_state;

static struct {
	uint32_t is_opening;
	int fd;
	pid_t pid; /* whose file `fd' is */
	uint64_t start_ns;
} state = {.fd = -EBADF};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Puts the process id for each %p. False if the result does not fit. */
static bool expand_path(const char *from, char *path, size_t size)
{
	size_t n = 0;

	while (*from) {
		int added;

		if (from[0] == '%' && from[1] == 'p') {
			added = snprintf(path + n, size - n, "%d", (int)getpid());
			from += 2;
		} else {
			added = snprintf(path + n, size - n, "%c", *from++);
		}
		if (added < 0 || (size_t)added >= size - n)
			return false;
		n += (size_t)added;
	}
	return n > 0;
}

static int open_file(const char *variable)
{
	char path[4096];
	int fd;

	if (!expand_path(variable, path, sizeof(path))) {
		log_warn("MPS_CLIENT_TRACE is longer than a path: nothing is traced");
		return -ENAMETOOLONG;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
	if (fd < 0) {
		int r = -errno;

		log_warn("cannot open %s for MPS_CLIENT_TRACE: %s; nothing is traced", path,
			strerror(-r));
		return r;
	}
	return fd;
}

/* One thread opens; the others' calls go untraced meanwhile. */
static void decide(void)
{
	const char *variable = secure_getenv("MPS_CLIENT_TRACE");
	int fd = -EBADF;

	if (__atomic_exchange_n(&state.is_opening, 1, __ATOMIC_ACQ_REL))
		return;
	if (variable && *variable)
		fd = open_file(variable);
	if (fd >= 0) {
		state.fd = fd;
		state.pid = getpid();
		state.start_ns = now_ns();
	}
	__atomic_store_n(&trace_state, fd >= 0 ? TRACE_ON : TRACE_OFF, __ATOMIC_RELEASE);
}

/* A forked child writes a file of its own if the name has the process id in it. */
static void follow_fork(void)
{
	const char *variable;
	pid_t parent = __atomic_load_n(&state.pid, __ATOMIC_RELAXED);
	pid_t pid = getpid();
	int fd;

	if (pid == parent || !__atomic_compare_exchange_n(&state.pid, &parent, pid, false,
				     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	variable = secure_getenv("MPS_CLIENT_TRACE");
	if (!variable || !strstr(variable, "%p"))
		return;
	fd = open_file(variable);
	if (fd < 0)
		return;
	if (dup3(fd, state.fd, O_CLOEXEC) < 0)
		log_warn("no trace of the forked process %d: %s", (int)pid, strerror(errno));
	close(fd);
}

/* Whether trace_begin() found the tracer on. */
static bool is_traced(const struct trace *trace)
{
	return trace->n_text > 0;
}

/* Adds to the line; what does not fit is cut. */
_printf_(2, 3) static void add(struct trace *trace, const char *format, ...)
{
	size_t room = sizeof(trace->text) - END_ROOM - trace->n_text;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(trace->text + trace->n_text, room, format, args);
	va_end(args);
	if (n > 0)
		trace->n_text += MIN((uint32_t)n, (uint32_t)room - 1);
}

static void add_name(struct trace *trace, const char *name)
{
	add(trace, "%s%s=", trace->n_args++ > 0 ? ", " : "", name);
}

void trace_begin(struct trace *trace, const char *call)
{
	int saved = errno;
	uint64_t since_ns;

	trace->n_text = 0;
	trace->n_args = 0;
	if (__atomic_load_n(&trace_state, __ATOMIC_ACQUIRE) == TRACE_UNDECIDED)
		decide();
	if (__atomic_load_n(&trace_state, __ATOMIC_ACQUIRE) == TRACE_ON) {
		follow_fork();
		since_ns = now_ns() - state.start_ns;
		add(trace, "%llu.%06llu %ld %s(", (unsigned long long)(since_ns / 1000000000u),
			(unsigned long long)(since_ns % 1000000000u / 1000), syscall(SYS_gettid),
			call);
	}
	errno = saved;
}

void trace_hex(struct trace *trace, const char *name, uint64_t value)
{
	if (!is_traced(trace))
		return;
	add_name(trace, name);
	add(trace, "0x%llx", (unsigned long long)value);
}

void trace_pointer(struct trace *trace, const char *name, const void *value)
{
	trace_hex(trace, name, (uintptr_t)value);
}

void trace_signed(struct trace *trace, const char *name, int64_t value)
{
	if (!is_traced(trace))
		return;
	add_name(trace, name);
	add(trace, "%lld", (long long)value);
}

void trace_unsigned(struct trace *trace, const char *name, uint64_t value)
{
	if (!is_traced(trace))
		return;
	add_name(trace, name);
	add(trace, "%llu", (unsigned long long)value);
}

void trace_float(struct trace *trace, const char *name, double value)
{
	if (!is_traced(trace))
		return;
	add_name(trace, name);
	add(trace, "%g", value);
}

void trace_opaque(struct trace *trace, const char *name)
{
	if (!is_traced(trace))
		return;
	add_name(trace, name);
	add(trace, "{...}");
}

void trace_string(struct trace *trace, const char *name, const char *value)
{
	if (!is_traced(trace))
		return;
	add_name(trace, name);
	if (!value) {
		add(trace, "NULL");
		return;
	}
	add(trace, "\"");
	for (unsigned i = 0; value[i] && i < STRING_SHOWN; i++) {
		unsigned char c = (unsigned char)value[i];

		add(trace, c < ' ' || c == 0x7f || c == '"' || c == '\\' ? "\\x%02x" : "%c", c);
	}
	add(trace, strnlen(value, STRING_SHOWN + 1) > STRING_SHOWN ? "\"..." : "\"");
}

void trace_start(struct trace *trace)
{
	if (is_traced(trace))
		trace->start_ns = now_ns();
}

static void write_line(const struct trace *trace)
{
	ssize_t n;

	do
		n = write(state.fd, trace->text, trace->n_text);
	while (n < 0 && errno == EINTR);
}

static void add_end(struct trace *trace, uint64_t took_ns)
{
	const char *name = cuda_result_name((uint32_t)trace->result);
	char *end = trace->text + trace->n_text;
	unsigned long long us = took_ns / 1000, ns = took_ns % 1000;
	int n;

	if (name)
		n = snprintf(end, END_ROOM, ") = %s %llu.%03llu\n", name, us, ns);
	else
		n = snprintf(end, END_ROOM, ") = %d %llu.%03llu\n", (int)trace->result, us, ns);
	if (n > 0)
		trace->n_text += MIN((uint32_t)n, END_ROOM - 1);
}

CUresult trace_end(struct trace *trace)
{
	int saved = errno;

	if (is_traced(trace)) {
		add_end(trace, now_ns() - trace->start_ns);
		write_line(trace);
	}
	errno = saved;
	return trace->result;
}
