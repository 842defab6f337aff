/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Stops the other threads of this process. The functions tracer_*() run in a child,
 * the tracer, while the thread that called stop_threads_for() waits for its end.
 *
 * Invariant: tracer_*() call nothing of libc but syscall(), because a stopped thread
 * may hold any lock. If the tracer dies, the kernel lets the threads run.
 */

#include "stop_threads.h"

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base.h"
#include "clock.h"
#include "number.h"
#include "sleep.h"

#define THREADS_MAX 4096u
#define TRACER_STACK (64u << 10)
/* A thread that waits for a child of vfork() or for a device may not stop sooner. */
#define STOP_NS 5000000000ull
#define POLL_NS 20000u

#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER 0x59616d61
#endif

struct traced {
	pid_t id;
	int signal; /* that it was about to get when it stopped */
	bool is_stopped, is_gone;
};

struct stop {
	int (*work)(void *arg);
	void *arg;
	int result;
	int tasks; /* /proc/self/task, opened by the caller */
	pid_t process, caller;
	_Atomic bool may_trace; /* the caller has permitted it */
	unsigned n;
	struct traced threads[THREADS_MAX];
	alignas(16) char entries[4096];
	alignas(16) char stack[TRACER_STACK];
};

struct entry {
	uint64_t inode;
	int64_t next;
	uint16_t size;
	uint8_t type;
	char name[];
} __attribute__((packed));

static pid_t entry_id(const struct entry *entry)
{
	pid_t id = 0;

	for (const char *c = entry->name; *c >= '0' && *c <= '9'; c++)
		id = id * 10 + (*c - '0');
	return id;
}

static bool is_listed(const struct stop *stop, pid_t id)
{
	for (unsigned i = 0; i < stop->n; i++)
		if (stop->threads[i].id == id)
			return true;
	return id == stop->caller;
}

/* Adds the threads that are not listed yet. */
static int list_threads(struct stop *stop)
{
	long n;

	if (syscall(SYS_lseek, stop->tasks, 0, SEEK_SET) < 0)
		return -errno;
	while ((n = syscall(SYS_getdents64, stop->tasks, stop->entries, sizeof(stop->entries))) >
		0) {
		const struct entry *entry;

		for (long at = 0; at < n; at += entry->size) {
			pid_t id;

			entry = (const struct entry *)(stop->entries + at);
			id = entry_id(entry);
			if (id == 0 || is_listed(stop, id))
				continue;
			if (stop->n == THREADS_MAX)
				return -EMFILE;
			stop->threads[stop->n++] = (struct traced){.id = id};
		}
	}
	return n < 0 ? -errno : 0;
}

/* Writes "ID/stat"; returns its start in the buffer. */
static const char *stat_name(pid_t id, char name[24])
{
	static const char suffix[] = "/stat";
	char *at = name + 24 - sizeof(suffix);

	for (size_t i = 0; i < sizeof(suffix); i++)
		at[i] = suffix[i];
	for (; id > 0; id /= 10)
		*--at = (char)('0' + id % 10);
	return at;
}

/* The kernel lists a thread that has ended until its end is complete, a main thread for longer. */
static bool tracer_has_ended(const struct stop *stop, pid_t id)
{
	char name[24], text[128];
	long fd = syscall(SYS_openat, stop->tasks, stat_name(id, name), O_RDONLY | O_CLOEXEC);
	long n = fd < 0 ? 0 : syscall(SYS_read, fd, text, sizeof(text));

	if (fd < 0)
		return errno == ENOENT || errno == ESRCH;
	syscall(SYS_close, fd);
	if (n < 0)
		return errno == ESRCH;
	/* The state is behind the name, which ends with the last parenthesis. */
	while (n > 0 && text[n - 1] != ')')
		n--;
	return n > 0 && n + 1 < (long)sizeof(text) && (text[n + 1] == 'Z' || text[n + 1] == 'X');
}

static int tracer_seize(const struct stop *stop, struct traced *thread)
{
	if (syscall(SYS_ptrace, PTRACE_SEIZE, thread->id, 0, 0) == 0 &&
		syscall(SYS_ptrace, PTRACE_INTERRUPT, thread->id, 0, 0) == 0)
		return 0;
	if (errno != ESRCH && !tracer_has_ended(stop, thread->id))
		return -EPERM;
	thread->is_gone = true;
	return 0;
}

static int tracer_await(struct traced *thread, uint64_t end)
{
	for (;;) {
		int status = 0;
		long id = syscall(SYS_wait4, thread->id, &status, __WALL | WNOHANG, NULL);

		if (id < 0 || (id > 0 && !WIFSTOPPED(status))) {
			thread->is_gone = true;
			return 0;
		}
		if (id > 0) {
			thread->is_stopped = true;
			/* Otherwise it is the stop that was asked for, or one by SIGSTOP. */
			if (status >> 16 != PTRACE_EVENT_STOP)
				thread->signal = WSTOPSIG(status);
			return 0;
		}
		if (now_ns() >= end)
			return -EBUSY;
		sleep_ns(POLL_NS);
	}
}

/* Until no thread is left that could start another one. */
static int tracer_stop_all(struct stop *stop)
{
	uint64_t end = now_ns() + STOP_NS;
	unsigned n_known;
	int r = 0;

	do {
		n_known = stop->n;
		r = list_threads(stop);
		for (unsigned i = n_known; i < stop->n && r == 0; i++)
			r = tracer_seize(stop, &stop->threads[i]);
		for (unsigned i = n_known; i < stop->n && r == 0; i++)
			if (!stop->threads[i].is_gone)
				r = tracer_await(&stop->threads[i], end);
	} while (r == 0 && stop->n > n_known);
	return r;
}

/* The kernel lets go of a thread that has not stopped yet when the tracer ends. */
static void tracer_let_go(const struct stop *stop)
{
	for (unsigned i = 0; i < stop->n; i++)
		if (stop->threads[i].is_stopped)
			syscall(SYS_ptrace, PTRACE_DETACH, stop->threads[i].id, 0,
				stop->threads[i].signal);
}

static int tracer_main(void *arg)
{
	struct stop *stop = arg;
	int r;

	/* If the thread that waits is killed, this process ends too. */
	syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	while (!atomic_load_explicit(&stop->may_trace, memory_order_acquire))
		if (syscall(SYS_getppid) == stop->process)
			sleep_ns(POLL_NS);
		else
			syscall(SYS_exit, 0);
	r = tracer_stop_all(stop);
	if (r == 0)
		r = stop->work(stop->arg);
	stop->result = r;
	tracer_let_go(stop);
	syscall(SYS_exit, 0);
	return 0;
}

/* Under Yama, a process may by default be traced by its ancestors only. */
static bool needs_permission(void)
{
	_cleanup_close_ int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
	char scope = '0';

	return fd >= 0 && read(fd, &scope, 1) == 1 && scope == '1';
}

/*
 * Before 2.25, clone() of glibc writes to the thread-local memory that the child shares with
 * its parent, whose mutexes then have a wrong owner.
 */
static bool clone_is_safe(void)
{
	const char *version = gnu_get_libc_version();

	return number_read(&version, 10) != 2 || *version++ != '.' ||
	       number_read(&version, 10) >= 25;
}

/* Its end sends no signal, and only a wait for clones sees it. */
static int run_tracer(struct stop *stop)
{
	bool is_permitted = needs_permission();
	int tracer;

	if (!clone_is_safe())
		return -ENOSYS;
	tracer = clone(tracer_main, stop->stack + TRACER_STACK,
		CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED, stop);
	if (tracer < 0)
		return -errno;
	if (is_permitted)
		syscall(SYS_prctl, PR_SET_PTRACER, tracer, 0, 0, 0);
	atomic_store_explicit(&stop->may_trace, true, memory_order_release);
	while (syscall(SYS_wait4, tracer, NULL, __WALL, NULL) < 0 && errno == EINTR)
		;
	if (is_permitted)
		syscall(SYS_prctl, PR_SET_PTRACER, 0, 0, 0, 0);
	return stop->result;
}

/* Signal handlers of this thread do not run meanwhile, nor in the tracer. */
static int run_blocked(struct stop *stop)
{
	const uint64_t all = UINT64_MAX;
	uint64_t saved;
	int r;

	if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &saved, sizeof(all)) < 0)
		return -errno;
	r = list_threads(stop);
	if (r == 0 && stop->n == 0)
		r = stop->work(stop->arg);
	else if (r == 0) {
		stop->n = 0;
		r = run_tracer(stop);
	}
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &saved, NULL, sizeof(saved));
	return r;
}

int stop_threads_for(int (*work)(void *arg), void *arg)
{
	_cleanup_close_ int tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stop *stop;
	int r;

	if (tasks < 0)
		return -errno;
	stop = mmap(
		NULL, sizeof(*stop), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stop == MAP_FAILED)
		return -errno;
	stop->work = work;
	stop->arg = arg;
	stop->tasks = tasks;
	stop->result = -EBUSY;
	stop->process = getpid();
	stop->caller = (pid_t)syscall(SYS_gettid);
	r = run_blocked(stop);
	munmap(stop, sizeof(*stop));
	return r;
}
