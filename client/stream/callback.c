/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Host functions, and what must happen when work of the GPU ends although the program
 * makes no call. Any thread of the application queues them; one thread of this
 * library runs them, which gets no signals from outside.
 *
 * Invariant: a stream's host functions have rising tickets, in the queue as on the
 * stream. So the first one of a stream in the queue is the next that the GPU asks
 * for. The stream continues when that ticket is in ring_control->done.
 */

#include "callback.h"

#include <stdatomic.h>

#include "lock.h"
#include "spin.h"
#include "stream.h"
#include "client/util/thread.h"
#include "client/transport/call.h"
#include "client/transport/route.h"
#include "client/transport/server_link.h"
#include "client/context/hooks.h"
#include "send_stream.h"

/*
 * The thread's sleep between two looks rises from the minimum to the maximum.
 * LINGER_NS: how long it stays with an empty queue.
 */
#define SLEEP_MIN_MS 1
#define SLEEP_MAX_MS 64
#define SLEEP_GRAPH_MS 2 /* while a graph may ask, which sends no wake-up */
#define LINGER_NS 200000000u

struct callback {
	struct callback *next;
	uint64_t ticket;
	uint32_t stream;           /* the stream, or the number of a graph's call */
	uint64_t launch;           /* of a graph: not 0; of a stream: 0 */
	bool is_owned;             /* `data' is freed afterwards */
	uint32_t n_errors;         /* server_link_count_errors() when it was queued */
	bool is_end;               /* callback_run(): the GPU does not ask for it */
	CUhostFn function;         /* NULL: use `callback' */
	CUstreamCallback callback; /* called after a fault too */
	CUstream handle;           /* as the program passed it */
	void *data;
};

/* Protects the queue, has_thread and expects_ends. */
static struct lock lock = LOCK_INIT(CALLBACKS);
static struct callback *queue, **queue_end = &queue;
static bool has_thread;
static bool expects_ends;             /* something waits for the end of work */
static atomic_bool is_called;         /* the thread has something new to look at */
static atomic_uint n_of_graphs;       /* graph calls in the queue */
static uint64_t tickets[STREAMS_MAX]; /* the last ticket of each stream; under the stream's lock */

/*
 * The GPU clears its request before it clears the answer. Read in this order, a
 * request that was answered never looks like a new one.
 */
static bool is_asked_by_graph(uint32_t call)
{
	return shm_load64(&server.control->graph_done[call]) == 0 &&
	       shm_load64(&server.page->graph_asked[call]) == 1;
}

static bool is_asked(const struct callback *callback)
{
	if (callback->is_end)
		return true;
	if (callback->launch)
		return is_asked_by_graph(callback->stream);
	return shm_load64(&server.page->asked[callback->stream]) >= callback->ticket;
}

/* Under the lock. */
static struct callback *unlink_at(struct callback **link)
{
	struct callback *callback = *link;

	*link = callback->next;
	if (!*link)
		queue_end = link;
	if (callback->launch)
		atomic_fetch_sub_explicit(&n_of_graphs, 1, memory_order_relaxed);
	return callback;
}

static void callback_free(struct callback *callback)
{
	if (callback && callback->is_owned)
		free(callback->data);
	free(callback);
}

/* The first callback that the GPU has asked for; after an error, any callback. NULL: none. */
static struct callback *take_next(CUresult status)
{
	struct callback *found = NULL;

	lock_hold(&lock);
	for (struct callback **link = &queue; *link && !found;) {
		if (status != CUDA_SUCCESS || is_asked(*link))
			found = unlink_at(link);
		else
			link = &(*link)->next;
	}
	return found;
}

/*
 * After a fault host functions are not run, but callbacks and end functions are called. If this
 * program goes on after the fault (MPS_ON_FAULT), it may wait for what a host function does.
 */
static void callback_call(struct callback *callback, CUresult status)
{
	CUresult told = status;

	if (told == CUDA_SUCCESS && server.continues)
		told = server_link_error_since(&server, callback->n_errors);
	callback_is_running = true;
	if (callback->callback)
		callback->callback(callback->handle, told, callback->data);
	else if (status == CUDA_SUCCESS || callback->is_end)
		callback->function(callback->data);
	callback_is_running = false;
	if (callback->launch)
		shm_store64(&server.control->graph_done[callback->stream], 1);
	else if (!callback->is_end)
		shm_store64(&server.control->done[callback->stream], callback->ticket);
	callback_free(callback);
}

/* Another thread may expect ends again meanwhile. An answer may come after a host function only. */
static void look_for_ends(void)
{
	bool was_expected, may_ask;

	lock_take(&lock);
	was_expected = expects_ends;
	expects_ends = false;
	may_ask = !queue;
	lock_release(&lock);
	if (!was_expected || !hooks.free_ended(may_ask))
		return;
	lock_take(&lock);
	expects_ends = true;
	lock_release(&lock);
}

/* Whether the thread must end: there has been no work since `last_ns'. */
static bool thread_is_idle(uint64_t last_ns)
{
	bool over = false;

	if (now_ns() - last_ns < LINGER_NS)
		return false;
	lock_hold(&lock);
	if (!queue && !expects_ends) {
		has_thread = false;
		over = true;
	}
	return over;
}

static bool spin_for_request(uint32_t count)
{
	struct spin spin = {.length_ns = CALL_SPIN_NS};

	while (shm_load32(&server.page->n_asked) == count)
		if (!spin_again(&spin))
			return false;
	return true;
}

/* Whether there was something to do. */
static bool thread_work(CUresult status)
{
	struct callback *callback = take_next(status);

	if (callback)
		callback_call(callback, status);
	else
		look_for_ends();
	return callback || atomic_exchange_explicit(&is_called, false, memory_order_acq_rel);
}

static void *callback_thread(_unused_ void *arg)
{
	uint64_t last_ns = now_ns();
	int sleep_ms = SLEEP_MIN_MS;

	thread_set_name("mps-host");
	while (!thread_is_idle(last_ns)) {
		uint32_t count = shm_load32(&server.page->n_asked);

		if (thread_work(server_link_check(&server))) {
			last_ns = now_ns();
			sleep_ms = SLEEP_MIN_MS;
			continue;
		}
		if (sleep_ms == SLEEP_MIN_MS && spin_for_request(count))
			continue;
		shm_wait(&server.page->n_asked, count, sleep_ms);
		sleep_ms = MIN(
			2 * sleep_ms, atomic_load_explicit(&n_of_graphs, memory_order_relaxed) > 0
					      ? SLEEP_GRAPH_MS
					      : SLEEP_MAX_MS);
		(void)server_link_is_alive(&server);
	}
	return NULL;
}

/* Under the lock. */
static bool start_thread(void)
{
	if (!has_thread)
		has_thread = thread_start(callback_thread, NULL) == 0;
	return has_thread;
}

/* Under the lock, for what the GPU does not ask for: the server wakes the thread otherwise. */
static void wake_thread(void)
{
	atomic_store_explicit(&is_called, true, memory_order_release);
	shm_wake(&server.page->n_asked);
}

void callback_expect_ends(void)
{
	lock_hold(&lock);
	expects_ends = start_thread();
	if (expects_ends)
		wake_thread();
}

/* Called before the message is sent: the GPU may ask at once. */
static CUresult callback_enqueue(struct callback *callback)
{
	CUresult result = CUDA_SUCCESS;

	lock_hold(&lock);
	if (start_thread()) {
		*queue_end = callback;
		queue_end = &callback->next;
		if (callback->launch)
			atomic_fetch_add_explicit(&n_of_graphs, 1, memory_order_relaxed);
		if (callback->is_end)
			wake_thread();
	} else {
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return result;
}

bool callback_run(CUhostFn function, void *data)
{
	struct callback *callback = malloc(sizeof(*callback));

	if (!callback)
		return false;
	*callback = (struct callback){.function = function, .data = data, .is_end = true};
	if (callback_enqueue(callback) == CUDA_SUCCESS)
		return true;
	free(callback);
	return false;
}

void callback_run_here(CUhostFn function, void *data)
{
	bool before = callback_is_running;

	callback_is_running = true;
	function(data);
	callback_is_running = before;
}

/*
 * Removes a callback whose message was not sent. The thread may have called it
 * already because of a fault.
 */
static void callback_drop(const struct callback *callback)
{
	struct callback *found = NULL;

	lock_take(&lock);
	for (struct callback **link = &queue; *link && !found;) {
		if (*link == callback)
			found = unlink_at(link);
		else
			link = &(*link)->next;
	}
	lock_release(&lock);
	free(found);
}

CUresult callback_add(struct stream *stream, CUhostFn function, CUstreamCallback callback,
	CUstream handle, void *data)
{
	struct callback *added = malloc(sizeof(*added));
	uint32_t id = stream_id(stream);
	CUresult result;

	if (!added)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*added = (struct callback){.stream = id,
		.n_errors = server_link_count_errors(&server),
		.function = function,
		.callback = callback,
		.handle = handle,
		.data = data};
	lock_hold(&stream->lock);
	added->ticket = tickets[id] + 1;
	result = callback_enqueue(added);
	if (result != CUDA_SUCCESS) {
		free(added);
	} else {
		result = send_host_call(id, tickets[id] + 1);
		if (result == CUDA_SUCCESS)
			tickets[id]++;
		else
			callback_drop(added);
	}
	if (result == CUDA_SUCCESS) {
		stream_issued(stream);
		stream_awaits_host(stream);
	}
	return result;
}

CUresult callback_expect(
	uint32_t call, uint64_t launch, CUhostFn function, void *data, bool is_owned)
{
	struct callback *callback = malloc(sizeof(*callback));
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (callback) {
		*callback = (struct callback){.stream = call,
			.launch = launch,
			.function = function,
			.data = data,
			.is_owned = is_owned};
		result = callback_enqueue(callback);
	} else if (is_owned) {
		free(data);
	}
	if (result != CUDA_SUCCESS)
		callback_free(callback);
	return result;
}

void callbacks_forget(uint64_t launch)
{
	struct callback *forgotten = NULL;

	lock_take(&lock);
	for (struct callback **link = &queue; *link;) {
		if ((*link)->launch == launch) {
			struct callback *callback = unlink_at(link);

			LIST_PUSH(forgotten, callback);
		} else {
			link = &(*link)->next;
		}
	}
	lock_release(&lock);
	while (forgotten) {
		struct callback *next = forgotten->next;

		callback_free(forgotten);
		forgotten = next;
	}
}
