/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Waits for a moment without work on a GPU, which it closes meanwhile. Any worker, and the deferred
 * thread.
 *
 * Invariant: an exclusive call is under way while a GPU is closed for a call.
 */

#include "quiet.h"

#include "blocked_streams.h"
#include "clock.h"
#include "closed_gpu.h"
#include "deferred.h"
#include "disable.h"
#include "gate.h"
#include "server/session/at_work.h"
#include "server/session/session.h"
#include "server/device/device.h"

/*
 * For how long a GPU is closed at first, unless it becomes quiet before. If earlier work lasted
 * longer, the GPU is closed for longer, up to the second number. After that the GPU is open for
 * OPEN_FACTOR times as long, so that kernels that wait for each other cannot keep it closed.
 */
#define CLOSED_MIN_NS UINT64_C(20000000)
#define CLOSED_LEARNT_NS UINT64_C(1000000000)
#define OPEN_FACTOR 3

/* MPS_DISABLE=quiet: calls wait in the driver. Set once. */
static bool is_off;

/* One call that waits for its turn. */
struct call {
	struct gate_wait wait;
	uint32_t first, end; /* GPUs [first, end) */
	uint64_t closed_ns;  /* for how long a GPU is closed next, at least */
	uint64_t open_ns;    /* for how long the GPU is open before that, at least */
	bool is_lone;        /* closes the GPU even if no session has work */
};

void quiet_start(void)
{
	is_off = disable_has(DISABLE_QUIET);
}

static CUresult quiet_begin(struct device *device)
{
	static struct quiet all[DEVICES_MAX];

	quiet_start();
	device->quiet = &all[device->ordinal];
	return CUDA_SUCCESS;
}

/* Without events, calls wait in the driver. */
static CUresult quiet_open(struct device *device)
{
	struct quiet *quiet = device->quiet;
	CUcontext context = NULL;

	if (cuda.cuCtxGetCurrent(&context) != CUDA_SUCCESS ||
		cuda.cuEventCreate(&quiet->work, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		return CUDA_SUCCESS;
	if (cuda.cuEventCreate(&device->closed->lone, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS)
		atomic_store(&quiet->context, context);
	else
		cuda.cuEventDestroy_v2(quiet->work);
	return CUDA_SUCCESS;
}

static void quiet_close(void)
{
	for (uint32_t i = 0; i < devices_count(); i++) {
		struct device *device = device_get(i);

		if (!atomic_exchange(&device->quiet->context, NULL))
			continue;
		cuda.cuEventDestroy_v2(device->quiet->work);
		cuda.cuEventDestroy_v2(device->closed->lone);
	}
}

const struct device_part quiet_part = {
	.begin = quiet_begin,
	.open = quiet_open,
	.close = quiet_close,
};

/* False: the GPU is not in use, or the driver has no events of contexts. The call waits then. */
static bool note_work(struct quiet *quiet)
{
	CUcontext context = atomic_load(&quiet->context);

	return context && cuda.cuCtxRecordEvent(context, quiet->work) == CUDA_SUCCESS;
}

/*
 * Waits until no other worker is launching, so that its kernels are on the GPU. False: `until_ns'
 * came first, or the wait is over.
 */
static bool wait_for_launching(struct call *call, uint64_t until_ns)
{
	gate_next(&call->wait, GATE_LAUNCHING, until_ns);
	while (launching_any(call->wait.session))
		if (!gate_again(&call->wait))
			return false;
	return true;
}

#define WAITS_TEXT(what)                                                                           \
	"waits until the work on the GPU ends, because " what                                      \
	" only then; `top' shows which clients have work"

/*
 * Waits until the noted work has ended. False: `until_ns' came first (0: no limit), or the wait is
 * over.
 */
static bool wait_for_work(struct call *call, const struct quiet *quiet, uint64_t until_ns)
{
	gate_next(&call->wait, until_ns > 0 ? GATE_WORK : GATE_OPEN_WORK, until_ns);
	while (cuda.cuEventQuery(quiet->work) == CUDA_ERROR_NOT_READY) {
		if (!gate_again(&call->wait))
			return false;
		gate_say(&call->wait,
			call->is_lone ? WAITS_TEXT("graphs with loops run")
				      : WAITS_TEXT("the driver loads code and unpins memory"));
	}
	return true;
}

/* Work that lasted long may last as long again. */
static uint64_t choose_closed_ns(const struct call *call, const struct quiet *quiet)
{
	uint64_t lasting_ns = atomic_load(&quiet->lasting_ns);

	return MAX(call->closed_ns, MIN(2 * lasting_ns, CLOSED_LEARNT_NS));
}

/* Of two notes at the same time one may be lost: the value is an estimate. */
static void note_lasting(struct quiet *quiet, uint64_t lasting_ns)
{
	atomic_store(&quiet->lasting_ns, MAX(lasting_ns, atomic_load(&quiet->lasting_ns) / 2));
}

/*
 * Closes the GPU if it becomes quiet in time; returns whether it did. The second look finds copies
 * by workers that found the GPU open just before.
 */
static bool close_quiet(struct call *call, struct device *device)
{
	struct quiet *quiet = device->quiet;
	const uint64_t start_ns = now_ns(), closed_ns = choose_closed_ns(call, quiet);
	bool is_quiet;

	closed_begin(device->closed, start_ns + closed_ns);
	is_quiet = wait_for_launching(call, start_ns + closed_ns);
	for (unsigned look = 0; look < 2 && is_quiet && note_work(quiet); look++)
		is_quiet = wait_for_work(call, quiet, start_ns + closed_ns);
	if (is_quiet) {
		note_lasting(quiet, now_ns() - start_ns);
		return true;
	}
	closed_end(device->closed);
	call->closed_ns = MIN(2 * closed_ns, CLOSED_MAX_NS);
	call->open_ns = OPEN_FACTOR * closed_ns;
	return false;
}

static void open_all(uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i++)
		closed_end(device_get(i)->closed);
}

/*
 * Closes all GPUs of the call; returns whether it did. If not, all are open, and `ret_i' is one
 * that is not quiet.
 */
static bool close_all(struct call *call, uint32_t *ret_i)
{
	for (uint32_t i = call->first; i < call->end; i++)
		if (!close_quiet(call, device_get(i))) {
			open_all(call->first, i);
			*ret_i = i;
			return false;
		}
	return true;
}

/*
 * Whether the call need not wait. The session's own work counts immediately; work of another
 * session counts once its worker has published it.
 */
static bool is_needless(const struct session *session)
{
	return is_off || (at_work_count() == 0 && !(session && session->busy));
}

/* Counts the GPUs as closed, because the end of the call opens them. */
static void count_as_closed(const struct call *call)
{
	for (uint32_t i = call->first; i < call->end; i++)
		closed_begin(device_get(i)->closed, 0);
}

/* Waits while the GPU is open, until it may be closed again. False: the wait is over. */
static bool wait_for_next(struct call *call, struct quiet *quiet)
{
	const uint64_t start_ns = now_ns();

	if (!wait_for_work(call, quiet, 0))
		return false;
	note_lasting(quiet, now_ns() - start_ns);
	gate_next(&call->wait, GATE_OPEN, start_ns + call->open_ns);
	while (gate_again(&call->wait))
		;
	return !gate_is_over(&call->wait);
}

/* Until the call gives up. 0: no limit. */
static unsigned ms_left(const struct call *call)
{
	uint64_t now = now_ns(), end_ns = call->wait.end_ns;

	if (end_ns == 0)
		return 0;
	return end_ns > now ? (unsigned)((end_ns - now) / 1000000) + 1 : 1;
}

static bool wait_for_turn(struct call *call)
{
	struct session *session = call->wait.session;
	uint32_t i = call->first;

	while (exclusive_call_begin(session, ms_left(call))) {
		if (!call->is_lone && is_needless(session)) {
			count_as_closed(call);
			return true;
		}
		if (close_all(call, &i) && (!call->is_lone || closed_keep(device_get(i)->closed)))
			return true;
		exclusive_call_end();
		if (!wait_for_next(call, device_get(i)->quiet))
			return false;
	}
	return false;
}

/* A session that was ending when the call began still waits. */
static bool call_begin(
	struct call *call, struct session *session, struct device *device, unsigned most_ms)
{
	const uint64_t now = now_ns();
	bool may;

	call->wait.session = session;
	call->wait.ignores_end = session && atomic_load(&session->is_ending);
	call->wait.start_ns = now;
	call->wait.end_ns = most_ms > 0 ? now + most_ms * UINT64_C(1000000) : 0;
	call->first = device ? device->ordinal : 0;
	call->end = device ? device->ordinal + 1 : devices_count();
	call->closed_ns = CLOSED_MIN_NS;
	may = wait_for_turn(call);
	gate_end(&call->wait);
	return may;
}

bool quiet_call_begin(struct session *session, struct device *device, unsigned most_ms)
{
	struct call call = {0};

	return call_begin(&call, session, device, most_ms);
}

void quiet_call_end(struct device *device)
{
	if (device)
		open_all(device->ordinal, device->ordinal + 1);
	else
		open_all(0, devices_count());
	exclusive_call_end();
}

/* Streams may become blocked again: the work may need that, and others find the GPU closed. */
bool quiet_lone_begin(struct session *session, struct device *device)
{
	struct call call = {.is_lone = true};

	if (is_off)
		return true;
	if (!call_begin(&call, session, device, 0))
		return false;
	exclusive_call_end();
	session->launching->is_lone = true;
	return true;
}

/* All other work on the GPU has ended. */
void quiet_lone_end(struct session *session, struct device *device)
{
	struct closed_gpu *closed = device->closed;
	CUcontext context = atomic_load(&device->quiet->context);

	session->launching->is_lone = false;
	if (is_off)
		return;
	if (context && cuda.cuCtxRecordEvent(context, closed->lone) == CUDA_SUCCESS)
		closed_launched(closed, session);
	else
		closed_end_lone(closed, 0);
}

void quiet_unpin(struct session *session, void *memory)
{
	bool may = quiet_call_begin(session, NULL, 0);

	cuda.cuMemHostUnregister(memory);
	atomic_fetch_add(&session->n_unpinned, 1);
	if (may)
		quiet_call_end(NULL);
}
