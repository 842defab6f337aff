/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A library to preload that makes the nth call of a function fail: of libc's
 * allocator, or of a function that makes a system call. Any thread of the program.
 *
 * Invariant: only calls of one object count (the program, or the client library in a
 * program), except those from between its offsets `skip_from' and `skip_to': libuv,
 * which by design does not survive them.
 *
 * MPS_BREAK names a file with a struct breaking, which a test changes meanwhile.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct breaking {
	char name[32];   /* the function's name */
	char object[32]; /* a part of the object's name; "": the program */
	uint64_t nth;    /* 0: none fails, but calls are counted */
	uint64_t seen;
	uint64_t skip_from, skip_to; /* offsets in the object */
	int32_t error;               /* errno; 0: transfers one byte; negative: a signal ends it */
	uint32_t reserved;
};

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);

static struct breaking *breaking;
static const void *program;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("MPS_BREAK");
	void *map;
	long fd;

	if (!path)
		return;
	fd = syscall(SYS_open, path, O_RDWR | O_CLOEXEC);
	map = fd < 0 ? MAP_FAILED
		     : mmap(NULL, sizeof(*breaking), PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd,
			       0);
	if (fd >= 0)
		close((int)fd);
	if (map == MAP_FAILED)
		return;
	breaking = map;
	/* The program begins at its headers. */
	program = (const void *)(getauxval(AT_PHDR) & ~4095ul);
}

static bool fails(const char *name, const void *caller)
{
	Dl_info object;
	uintptr_t offset;

	if (!breaking || strncmp(breaking->name, name, sizeof(breaking->name)) != 0 ||
		!dladdr(caller, &object))
		return false;
	if (breaking->object[0] ? !strstr(object.dli_fname, breaking->object)
				: object.dli_fbase != program)
		return false;
	offset = (uintptr_t)caller - (uintptr_t)object.dli_fbase;
	if (offset >= breaking->skip_from && offset < breaking->skip_to)
		return false;
	if (__atomic_add_fetch(&breaking->seen, 1, __ATOMIC_RELAXED) != breaking->nth)
		return false;
	if (breaking->error < 0)
		kill(getpid(), -breaking->error);
	return true;
}

static void *real_of(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

#define FAILS(name) fails(name, __builtin_return_address(0))

/* `failed' is the result, with errno set. */
#define BREAKS(type, name, failed, parameters, arguments)                                          \
	EXPORT type name parameters                                                                \
	{                                                                                          \
		static __typeof__(name) *real;                                                     \
                                                                                                   \
		if (!real)                                                                         \
			real = real_of(#name);                                                     \
		if (FAILS(#name)) {                                                                \
			errno = breaking->error;                                                   \
			return failed;                                                             \
		}                                                                                  \
		return real arguments;                                                             \
	}

BREAKS(void *, mmap, MAP_FAILED, (void *at, size_t size, int prot, int flags, int fd, off_t off),
	(at, size, prot, flags, fd, off))
BREAKS(int, mprotect, -1, (void *at, size_t size, int prot), (at, size, prot))
BREAKS(int, madvise, -1, (void *at, size_t size, int advice), (at, size, advice))
BREAKS(int, memfd_create, -1, (const char *name, unsigned flags), (name, flags))
BREAKS(int, ftruncate, -1, (int fd, off_t size), (fd, size))
BREAKS(int, socket, -1, (int domain, int type, int protocol), (domain, type, protocol))
BREAKS(int, connect, -1, (int fd, const struct sockaddr *address, socklen_t size),
	(fd, address, size))
BREAKS(int, accept4, -1, (int fd, struct sockaddr *address, socklen_t *size, int flags),
	(fd, address, size, flags))
BREAKS(int, getsockopt, -1, (int fd, int level, int name, void *value, socklen_t *size),
	(fd, level, name, value, size))
BREAKS(int, epoll_create1, -1, (int flags), (flags))
BREAKS(int, epoll_ctl, -1, (int epoll, int what, int fd, struct epoll_event *event),
	(epoll, what, fd, event))
BREAKS(int, eventfd, -1, (unsigned value, int flags), (value, flags))
BREAKS(int, pipe2, -1, (int fds[2], int flags), (fds, flags))
BREAKS(int, poll, -1, (struct pollfd * fds, nfds_t n, int timeout), (fds, n, timeout))
BREAKS(pid_t, fork, -1, (void), ())
BREAKS(int, pthread_create, breaking->error,
	(pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg),
	(thread, attributes, run, arg))

/* Functions that may transfer less than `size', the requested size. */
#define SHORTENS(type, name, parameters, arguments)                                                \
	EXPORT type name parameters                                                                \
	{                                                                                          \
		static __typeof__(name) *real;                                                     \
                                                                                                   \
		if (!real)                                                                         \
			real = real_of(#name);                                                     \
		if (FAILS(#name)) {                                                                \
			if (breaking->error) {                                                     \
				errno = breaking->error;                                           \
				return -1;                                                         \
			}                                                                          \
			size = size > 1 ? 1 : size;                                                \
		}                                                                                  \
		return real arguments;                                                             \
	}

static struct iovec one_byte(const struct msghdr *message)
{
	struct iovec first = message->msg_iov[0];

	first.iov_len = first.iov_len > 1 ? 1 : first.iov_len;
	return first;
}

SHORTENS(ssize_t, recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags))
SHORTENS(ssize_t, read, (int fd, void *data, size_t size), (fd, data, size))
EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	static ssize_t (*real)(int, struct msghdr *, int);
	struct iovec first = one_byte(message);

	if (!real)
		real = real_of("recvmsg");
	if (!FAILS("recvmsg"))
		return real(fd, message, flags);
	if (breaking->error) {
		errno = breaking->error;
		return -1;
	}
	message->msg_iov = &first;
	message->msg_iovlen = 1;
	return real(fd, message, flags);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	static ssize_t (*real)(int, const struct msghdr *, int);
	struct msghdr shorter = *message;
	struct iovec first = one_byte(message);

	if (!real)
		real = real_of("sendmsg");
	if (!FAILS("sendmsg"))
		return real(fd, message, flags);
	if (breaking->error) {
		errno = breaking->error;
		return -1;
	}
	shorter.msg_iov = &first;
	shorter.msg_iovlen = 1;
	return real(fd, &shorter, flags);
}

EXPORT int fcntl(int fd, int command, ...)
{
	static int (*real)(int, int, ...);
	va_list args;
	long arg;

	va_start(args, command);
	arg = va_arg(args, long);
	va_end(args);
	if (!real)
		real = real_of("fcntl");
	if (FAILS("fcntl")) {
		errno = breaking->error;
		return -1;
	}
	return real(fd, command, arg);
}

EXPORT int open(const char *path, int flags, ...)
{
	static int (*real)(const char *, int, ...);
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = va_arg(args, mode_t);
	va_end(args);
	if (!real)
		real = real_of("open");
	if (FAILS("open")) {
		errno = breaking->error;
		return -1;
	}
	return real(path, flags, mode);
}

/* libc has no functions for futex and pidfd_open. Waking cannot fail. */
EXPORT long syscall(long number, ...)
{
	static long (*real)(long, ...);
	bool is_pidfd = number == SYS_pidfd_open, is_wait;
	long a[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (!real)
		real = real_of("syscall");
	is_wait = number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT;
	if ((is_pidfd && FAILS("pidfd_open")) || (is_wait && FAILS("futex"))) {
		errno = breaking->error;
		return -1;
	}
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* The allocator's functions count as one. */
EXPORT void *malloc(size_t size)
{
	if (!FAILS("malloc"))
		return __libc_malloc(size);
	errno = ENOMEM;
	return NULL;
}

EXPORT void *calloc(size_t n, size_t size)
{
	if (!FAILS("malloc"))
		return __libc_calloc(n, size);
	errno = ENOMEM;
	return NULL;
}

EXPORT void *realloc(void *old, size_t size)
{
	if (!FAILS("malloc"))
		return __libc_realloc(old, size);
	errno = ENOMEM;
	return NULL;
}

EXPORT void *reallocarray(void *old, size_t n, size_t size)
{
	size_t bytes;

	if (!__builtin_mul_overflow(n, size, &bytes) && !FAILS("malloc"))
		return __libc_realloc(old, bytes);
	errno = ENOMEM;
	return NULL;
}
