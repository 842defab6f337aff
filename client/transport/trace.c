/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The tracer. Any thread of the application; it holds no lock across a call or a
 * fork.
 *
 * Invariant: `state.file' stays open from TRACE_ON until the process ends. Each line
 * is one write() to a file opened for appending, so lines of several threads and
 * processes never mix.
 */

#include "trace.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "wire.h"
#include "client/util/descriptor.h"
#include "client/util/log.h"

/* The most characters of a string argument that a line shows. */
#define STRING_SHOWN 80

/* Space reserved for the result. */
#define END_SPACE 160

_Atomic uint32_t trace_state;

static struct {
	_Atomic uint32_t is_opening;
	struct descriptor file;
	_Atomic pid_t pid; /* the process for which `file' was opened */
	uint64_t start_ns;
	bool is_json;
} state = {.file = {.fd = -EBADF}};

/* A traced call of this thread is about to enter its function again, to do its work. */
static _Thread_local bool is_inside;

/* The line of one call. */
struct trace {
	uint64_t start_ns;
	uint32_t n_text;
	uint32_t n_args;
	uint32_t is_full; /* later arguments are left out */
	char text[TRACE_LINE_MAX];
};

/* Replaces each %p by the process ID. False: the result does not fit. */
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

static bool ends_with(const char *text, const char *end)
{
	size_t n_text = strlen(text), n_end = strlen(end);

	return n_text >= n_end && strcmp(text + n_text - n_end, end) == 0;
}

/* The process that creates the file begins the JSON array; viewers do not need its end. */
static int open_append(const char *path, bool is_json)
{
	int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY;
	bool is_first = is_json;
	int fd = is_first ? open(path, flags | O_EXCL, 0666) : -1;

	if (fd < 0) {
		is_first = false;
		fd = open(path, flags, 0666);
	}
	fd = fd < 0 ? -errno : descriptor_raise(fd);
	if (fd >= 0 && is_first && write(fd, "[\n", 2) != 2) {
		close(fd);
		return -EIO;
	}
	return fd;
}

static int trace_open_file(const char *variable)
{
	char path[4096];
	int fd;

	if (!expand_path(variable, path, sizeof(path))) {
		log_warn("MPS_CLIENT_TRACE is too long for a path: no trace is written");
		return -ENAMETOOLONG;
	}
	state.is_json = ends_with(path, ".json");
	fd = open_append(path, state.is_json);
	if (fd < 0)
		log_warn("cannot open %s for MPS_CLIENT_TRACE: %s; no trace is written", path,
			strerror(-fd));
	return fd;
}

/* One thread opens the file; calls of other threads are not traced meanwhile. */
static void trace_decide(void)
{
	const char *variable = secure_getenv("MPS_CLIENT_TRACE");
	int fd = -EBADF;

	if (atomic_exchange_explicit(&state.is_opening, 1, memory_order_acq_rel))
		return;
	if (variable && *variable)
		fd = trace_open_file(variable);
	if (fd >= 0) {
		descriptor_note(&state.file, fd);
		state.pid = getpid();
		state.start_ns = now_ns();
	}
	atomic_store_explicit(&trace_state, fd >= 0 ? TRACE_ON : TRACE_OFF, memory_order_release);
}

/* A forked child writes its own file if the name contains the process ID. */
static void follow_fork(void)
{
	const char *variable;
	pid_t parent = atomic_load_explicit(&state.pid, memory_order_relaxed);
	pid_t pid = getpid();
	int fd, r;

	if (pid == parent || !atomic_compare_exchange_strong_explicit(&state.pid, &parent, pid,
				     memory_order_relaxed, memory_order_relaxed))
		return;
	variable = secure_getenv("MPS_CLIENT_TRACE");
	if (!variable || !strstr(variable, "%p"))
		return;
	fd = trace_open_file(variable);
	if (fd < 0)
		return;
	r = descriptor_replace(&state.file, fd);
	if (r < 0)
		log_warn("cannot trace the forked process %d: %s", (int)pid, strerror(-r));
	close(fd);
}

/*
 * Appends to the line, and cuts what does not fit. In JSON, what does not fit and
 * all that follows is left out.
 */
_printf_(2, 3) static void trace_append(struct trace *trace, const char *format, ...)
{
	size_t space = sizeof(trace->text) - END_SPACE - trace->n_text;
	va_list args;
	int n;

	if (trace->is_full)
		return;
	va_start(args, format);
	n = vsnprintf(trace->text + trace->n_text, space, format, args);
	va_end(args);
	if (n > 0)
		trace->n_text += MIN((uint32_t)n, (uint32_t)space - 1);
	trace->is_full = n > 0 && (size_t)n >= space;
}

static void add_name(struct trace *trace, const char *name)
{
	if (state.is_json)
		trace_append(trace, "%s\"%s\":", trace->n_args++ > 0 ? "," : "", name);
	else
		trace_append(trace, "%s%s=", trace->n_args++ > 0 ? ", " : "", name);
}

/* A JSON argument is written completely or not at all. */
static void end_argument(struct trace *trace, uint32_t start)
{
	if (state.is_json && trace->is_full)
		trace->n_text = start;
}

_printf_(3, 4) static void add_argument(
	struct trace *trace, const char *name, const char *format, ...)
{
	uint32_t start = trace->n_text;
	char value[64];

	if (trace->is_full)
		return;
	format_arguments(value, format);
	add_name(trace, name);
	trace_append(trace, "%s", value);
	end_argument(trace, start);
}

static void add_head(struct trace *trace, const char *call)
{
	uint64_t since_ns = trace->start_ns - state.start_ns;
	long thread = syscall(SYS_gettid);

	if (state.is_json)
		trace_append(trace,
			"{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%ld,\"args\":{", call,
			(int)getpid(), thread);
	else
		trace_append(trace, "%llu.%06llu %ld %s(",
			(unsigned long long)(since_ns / 1000000000u),
			(unsigned long long)(since_ns % 1000000000u / 1000), thread, call);
}

/* JSON has no hexadecimal numbers. */
static void add_hex(struct trace *trace, const char *name, uint64_t value)
{
	add_argument(
		trace, name, state.is_json ? "\"0x%llx\"" : "0x%llx", (unsigned long long)value);
}

/* The program's locale may have another decimal point, of one byte or several. */
static void use_point(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++)
		if (isalnum((unsigned char)*from) || *from == '+' || *from == '-')
			*to++ = *from;
		else if (to == text || to[-1] != '.')
			*to++ = '.';
	*to = '\0';
}

static void add_float(struct trace *trace, const char *name, double value)
{
	char text[32];

	snprintf(text, sizeof(text), "%g", value);
	use_point(text);
	/* JSON has no infinity. */
	add_argument(trace, name, state.is_json ? "\"%s\"" : "%s", text);
}

/* Bytes that JSON cannot contain unescaped: JSON is UTF-8, strings of programs may be anything. */
static bool is_odd(unsigned char c)
{
	return c < ' ' || c == 0x7f || c == '"' || c == '\\' || (state.is_json && c > 0x7f);
}

static void add_string(struct trace *trace, const char *value)
{
	size_t shown = strnlen(value, STRING_SHOWN + 1);

	trace_append(trace, "\"");
	for (unsigned i = 0; i < MIN(shown, STRING_SHOWN); i++) {
		unsigned char c = (unsigned char)value[i];

		if (is_odd(c))
			trace_append(trace, state.is_json ? "\\u%04x" : "\\x%02x", c);
		else
			trace_append(trace, "%c", c);
	}
	trace_append(trace, shown <= STRING_SHOWN ? "\"" : state.is_json ? "...\"" : "\"...");
}

static void add_text(struct trace *trace, const char *name, const char *value)
{
	uint32_t start = trace->n_text;

	if (trace->is_full)
		return;
	add_name(trace, name);
	if (value)
		add_string(trace, value);
	else
		trace_append(trace, state.is_json ? "null" : "NULL");
	end_argument(trace, start);
}

static void add_value(struct trace *trace, char type, const char *name, va_list *values)
{
	switch (type) {
	case TRACE_STRING:
		add_text(trace, name, va_arg(*values, const char *));
		break;
	case TRACE_POINTER:
		add_hex(trace, name, (uintptr_t)va_arg(*values, const void *));
		break;
	case TRACE_HEX:
		add_hex(trace, name, va_arg(*values, uint64_t));
		break;
	case TRACE_SIGNED:
		add_argument(trace, name, "%lld", (long long)va_arg(*values, int64_t));
		break;
	case TRACE_UNSIGNED:
		add_argument(trace, name, "%llu", (unsigned long long)va_arg(*values, uint64_t));
		break;
	case TRACE_FLOAT:
		add_float(trace, name, va_arg(*values, double));
		break;
	case TRACE_OPAQUE:
		add_argument(trace, name, state.is_json ? "\"{...}\"" : "{...}");
		break;
	}
}

/* `types' is TYPE NAME, TYPE NAME, …, without the spaces. */
static void add_arguments(struct trace *trace, const char *types, va_list *values)
{
	char name[TRACE_NAME_MAX + 1];

	while (*types) {
		size_t n = strcspn(types + 1, ",");

		snprintf(name, sizeof(name), "%.*s", (int)n, types + 1);
		add_value(trace, *types, name, values);
		types += 1 + n;
		types += *types == ',';
	}
}

static void write_line(const struct trace *trace)
{
	(void)descriptor_write(&state.file, trace->text, trace->n_text);
}

/* Events of all processes use the same clock. */
static int format_event_end(
	const struct trace *trace, char *end, const char *result, uint64_t took_ns)
{
	return snprintf(end, END_SPACE,
		"%s\"result\":\"%s\"},\"ts\":%llu.%03llu,\"dur\":%llu.%03llu},\n",
		trace->n_args > 0 ? "," : "", result, (unsigned long long)trace->start_ns / 1000,
		(unsigned long long)trace->start_ns % 1000, (unsigned long long)took_ns / 1000,
		(unsigned long long)took_ns % 1000);
}

static void add_end(struct trace *trace, CUresult result, uint64_t took_ns)
{
	const char *name = cuda_result_name((uint32_t)result);
	char *end = trace->text + trace->n_text;
	char number[16];
	int n;

	snprintf(number, sizeof(number), "%d", (int)result);
	if (!name)
		name = number;
	if (state.is_json)
		n = format_event_end(trace, end, name, took_ns);
	else
		n = snprintf(end, END_SPACE, ") = %s %llu.%03llu\n", name,
			(unsigned long long)took_ns / 1000, (unsigned long long)took_ns % 1000);
	if (n > 0)
		trace->n_text += MIN((uint32_t)n, END_SPACE - 1);
}

bool trace_begin(uint64_t *ret_start_ns)
{
	int saved = errno;

	if (atomic_load_explicit(&trace_state, memory_order_acquire) == TRACE_UNDECIDED)
		trace_decide();
	if (atomic_load_explicit(&trace_state, memory_order_acquire) != TRACE_ON || is_inside) {
		is_inside = false;
		errno = saved;
		return false;
	}
	is_inside = true;
	follow_fork();
	errno = saved;
	*ret_start_ns = now_ns();
	return true;
}

CUresult trace_write(const char *call, uint64_t start_ns, CUresult result, ...)
{
	uint64_t took_ns = now_ns() - start_ns;
	struct trace trace = {.start_ns = start_ns};
	int saved = errno;
	va_list values;

	add_head(&trace, call);
	va_start(values, result);
	add_arguments(&trace, call + strlen(call) + 1, &values);
	va_end(values);
	add_end(&trace, result, took_ns);
	write_line(&trace);
	errno = saved;
	return result;
}
