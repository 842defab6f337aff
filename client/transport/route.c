/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decides the route. route_decide() runs in the threads that make the first calls
 * of the process, one at a time; on_fork() runs in the only thread of a child.
 *
 * Invariant: the route is published after everything it needs is ready. Afterwards
 * it changes only in a forked child. `is_open' is set by calls that found the way
 * free, after which only a fork closes it.
 */

#include "route.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "calls_transport.h"
#include "disable.h"
#include "everywhere.h"
#include "find_cuda.h"
#include "handshake.h"
#include "lock.h"
#include "real.h"
#include "server_link.h"
#include "trace.h"
#include "client/util/compat.h"
#include "client/util/log.h"
#include "client/util/logs.h"

struct route_state route_state;
_Thread_local bool callback_is_running;

static struct lock decide_lock = LOCK_INIT(ROUTE);
static CUresult failure;

static bool server_is_required(void)
{
	const char *value = secure_getenv("MPS_CLIENT_REQUIRE");

	return value && !strcmp(value, "1");
}

/* Whether the program was told to be a client, or a daemon should have been there. */
static bool is_unexpected(int r)
{
	if (secure_getenv("CUDA_MPS_PIPE_DIRECTORY"))
		return true;
	/* The daemon of another user is there for that user's programs. */
	if (r == HANDSHAKE_UNTRUSTED)
		return !everywhere_has_loaded();
	return r != HANDSHAKE_NO_DAEMON;
}

/* A machine with this library for every program may have no driver. */
static enum route decide_no_driver(const char *why)
{
	if (everywhere_has_loaded())
		log_info("cannot open libcuda.so.1: %s", why);
	else
		log_error("cannot open libcuda.so.1: %s", why);
	failure = CUDA_ERROR_NO_DEVICE;
	return ROUTE_FAILED;
}

static enum route decide_native(const char *why_not, bool is_warning)
{
	char why[FIND_CUDA_WHY_MAX];

	if (server_is_required()) {
		log_error("%s, and MPS_CLIENT_REQUIRE=1 forbids running without MPS", why_not);
		failure = CUDA_ERROR_MPS_CONNECTION_FAILED;
		return ROUTE_FAILED;
	}
	if (is_warning)
		log_warn("%s: this process uses the GPU without MPS", why_not);
	else
		log_info("%s: this process uses the GPU without MPS", why_not);
	return real_open(why, sizeof(why)) < 0 ? decide_no_driver(why) : ROUTE_NATIVE;
}

static enum route decide_once(void)
{
	CUresult result = CUDA_SUCCESS;
	char why[1024];
	int r;

	if (disable_has(DISABLE_CLIENT))
		return decide_native(DISABLE_VARIABLE " has the word client", false);
	r = server_link_open(&server, why, sizeof(why), &result);
	if (r > 0)
		return decide_native(why, is_unexpected(r));
	if (r < 0) {
		log_error("%s", why);
		failure = result;
		return ROUTE_FAILED;
	}
	return ROUTE_MPS;
}

/*
 * In a forked child, in its only thread, before fork() returns there. The child has the parent's
 * memory and connection, but not the rings (MADV_DONTFORK): nothing may use `server' after this.
 */
static void on_fork(void)
{
	decide_lock = (struct lock)LOCK_INIT(ROUTE);
	logs_forked();
	if (route_state.route != ROUTE_MPS)
		return;
	server_link_forget(&server);
	route_state.is_open = 0;
	/* If the parent had not initialised CUDA, the child may. */
	route_state.route = route_state.is_initialised ? ROUTE_FORKED : ROUTE_UNDECIDED;
}

static void watch_forks(void)
{
	static bool is_watched;

	/* The child inherits the handlers, and may connect to a server itself. */
	if (!is_watched)
		is_watched = pthread_atfork(NULL, NULL, on_fork) == 0;
}

enum route route_decide(void)
{
	enum route route;

	lock_hold(&decide_lock);
	route = (enum route)atomic_load_explicit(&route_state.route, memory_order_acquire);
	if (route == ROUTE_UNDECIDED) {
		route = decide_once();
		/* The real libcuda handles forks itself. */
		if (route == ROUTE_MPS)
			watch_forks();
		atomic_store_explicit(&route_state.route, route, memory_order_release);
	}
	return route;
}

void route_set_initialised(void)
{
	atomic_store_explicit(&route_state.is_initialised, 1, memory_order_release);
}

CUresult route_error(void)
{
	return route_get() == ROUTE_FORKED ? CUDA_ERROR_NOT_INITIALIZED : failure;
}

static struct entry refused(CUresult result)
{
	return (struct entry){.way = ENTRY_REFUSED, .result = result};
}

/* For a call that needs the server: whether there is one that serves this thread. */
static struct entry ask_server(enum route route)
{
	if (route != ROUTE_MPS)
		return refused(route_error());
	if (!atomic_load_explicit(&route_state.is_initialised, memory_order_acquire))
		return refused(CUDA_ERROR_NOT_INITIALIZED);
	if (callback_is_running)
		return refused(CUDA_ERROR_NOT_PERMITTED);
	if (trace_is_off())
		atomic_store_explicit(&route_state.is_open, 1, memory_order_release);
	return (struct entry){.way = ENTRY_SERVED};
}

#define REAL_AT(symbol) (offsetof(struct cuda_api, symbol) / sizeof(void (*)(void)))

/* Whether only a monitor of GPUs asks for the driver's version, for which `real' is then ready. */
static bool is_for_monitor(size_t real_at)
{
	char why[FIND_CUDA_WHY_MAX];
	int r;

	if (real_at != REAL_AT(cuDriverGetVersion) || !everywhere_has_loaded() ||
		!everywhere_is_monitor() ||
		atomic_load_explicit(&route_state.route, memory_order_acquire) != ROUTE_UNDECIDED)
		return false;
	lock_hold(&decide_lock);
	r = real_open(why, sizeof(why));
	return r == 0;
}

struct entry route_ask(size_t real_at, bool is_early)
{
	struct entry entry = {.way = ENTRY_TRACED};
	enum route route;

	if (trace_begin(&entry.start_ns))
		return entry;
	if (is_for_monitor(real_at))
		return (struct entry){.way = ENTRY_NATIVE};
	route = route_get();
	if (route == ROUTE_NATIVE)
		return (struct entry){.way = ENTRY_NATIVE};
	return is_early ? (struct entry){.way = ENTRY_SERVED} : ask_server(route);
}

static const struct {
	const char *limit, *advice;
} refusals[REFUSALS] = {
	[REFUSAL_BY_CLIENT] = {"this program has reached its limit of a GPU's memory",
		"free memory, or raise the limit (CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, or "
		"mps-control set_device_pinned_mem_limit)"},
	[REFUSAL_BY_GROUP] = {"the group of this program has reached its limit of a GPU's memory",
		"free memory, also in other programs of the group (mps-control ps -l), or raise "
		"the limit (mps-control group set)"},
	[REFUSAL_BY_CGROUP] = {"a cgroup of this program has reached its limit of a GPU's memory",
		"free memory, also in other programs of the cgroup, or raise its dmem.max"},
	[REFUSAL_BY_HOST] = {"the service holds as much host memory for this program as it may",
		"destroy streams, graphs, modules or other objects (server.log counts them), or "
		"raise MPS_CLIENT_HOST_MIB of the daemon"},
};

/*
 * A call returns CUDA_ERROR_OUT_OF_MEMORY: logs which limit has refused the memory and what to
 * do, once for each limit. The server has written the numbers, which are only printed.
 */
static void log_refusal(const struct page __shm *page)
{
	static _Atomic uint32_t logged; /* one bit for each limit */
	uint32_t refusal = shm_load32(&page->refusal);
	unsigned long long mib = shm_load64(&page->refusal_limit) >> 20;
	uint32_t bit;

	if (refusal == REFUSAL_NONE || refusal >= REFUSALS)
		return;
	bit = 1u << refusal;
	if (atomic_fetch_or_explicit(&logged, bit, memory_order_relaxed) & bit)
		return;
	log_warn("%s (%llu MiB): %s", refusals[refusal].limit, mib, refusals[refusal].advice);
}

static void log_failed(const char *symbol, CUresult result)
{
	const char *name;
	char text[160];

	/* The real driver has its own log. */
	if (result == CUDA_ERROR_NOT_READY || route_get() == ROUTE_NATIVE ||
		local_cuGetErrorName(result, &name) != CUDA_SUCCESS)
		return;
	if (result == CUDA_ERROR_OUT_OF_MEMORY && route_get() == ROUTE_MPS)
		log_refusal(server.page);
	snprintf(text, sizeof(text), "Returning %d (%s) from %s", (int)result, name, symbol);
	logs_add(LOG_ERROR, text);
}

CUresult route_failed(const char *symbol, CUresult result)
{
	log_failed(symbol, result);
	return result;
}

CUresult refuse(const char *symbol, const char *why)
{
	log_refused(symbol, why);
	return CUDA_ERROR_NOT_SUPPORTED;
}
