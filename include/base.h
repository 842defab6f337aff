/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_H
#define BASE_H

/*
 * For every file: cleanup attributes, ownership moves and the few macros that C
 * does not have. Nothing here has a type of the project or allocates.
 */

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _printf_(fmt, first) __attribute__((format(printf, fmt, first)))
#define _unused_ __attribute__((unused))
#define _hot_ __attribute__((hot))

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
/* <sys/param.h> also has them. */
#ifndef MIN
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#endif

/* `align' is a power of two; the result wraps for values near the maximum. */
#define ALIGN_UP(x, align) (((x) + (align)-1) & ~((__typeof__(x))(align)-1))

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Writes the arguments that follow the parameter `format' into the array `text'. */
#define format_arguments(text, format)                                                             \
	do {                                                                                       \
		va_list _args;                                                                     \
		va_start(_args, format);                                                           \
		vsnprintf(text, sizeof(text), format, _args);                                      \
		va_end(_args);                                                                     \
	} while (0)

/* Moves ownership out of a variable whose cleanup would release it. */
#define TAKE_PTR(ptr)                                                                              \
	({                                                                                         \
		__typeof__(ptr) _taken = (ptr);                                                    \
		(ptr) = NULL;                                                                      \
		_taken;                                                                            \
	})
#define TAKE_FD(fd)                                                                                \
	({                                                                                         \
		int _taken = (fd);                                                                 \
		(fd) = -EBADF;                                                                     \
		_taken;                                                                            \
	})

/* Singly linked lists, by the member `next': puts an item first; takes the first, or NULL. */
#define LIST_PUSH(head, item)                                                                      \
	do {                                                                                       \
		(item)->next = (head);                                                             \
		(head) = (item);                                                                   \
	} while (0)
#define LIST_POP(head)                                                                             \
	({                                                                                         \
		__typeof__(head) _first = (head);                                                  \
		if (_first)                                                                        \
			(head) = _first->next;                                                     \
		_first;                                                                            \
	})

/* Takes an item off the list that contains it. */
#define LIST_DROP(head, item)                                                                      \
	do {                                                                                       \
		__typeof__(head) *_link = &(head);                                                 \
		while (*_link != (item))                                                           \
			_link = &(*_link)->next;                                                   \
		*_link = (item)->next;                                                             \
	} while (0)

static inline void freep(void *p)
{
	free(*(void **)p);
}

/* Keeps errno: it may run between a failed call and the code that reads errno. */
static inline void closep(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

static inline void fclosep(FILE **file)
{
	if (*file)
		fclose(*file);
}

#define _cleanup_fclose_ _cleanup_(fclosep)
#define _cleanup_free_ _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)

/* The only bounds check written by hand: `len' bytes from `off' lie within `size'. */
static inline bool range_ok(uint64_t off, uint64_t len, uint64_t size)
{
	return len <= size && off <= size - len;
}

#endif
