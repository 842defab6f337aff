/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Limits of a GPU's context that affect kernels: the stack of each thread, the device heap,
 * the buffer of printf. They are the same for all clients, so they rise to the highest value
 * that a client has requested. When that client has left, they are lowered to the highest
 * request of the others. Workers, and the deferred thread.
 *
 * Local memory of kernels that is not stack is obtained in the same way: a stack of that
 * size suffices (measured on an H200, driver 580).
 *
 * To change the stack the driver waits for the kernels of all clients. So the stack rises to
 * powers of two: few changes, however small the steps of clients are.
 *
 * Invariant: a limit that was granted to a client is in effect before its next launch and
 * stays while the client lives, because its requests are in the device's list.
 */

#include "cu_limit.h"

#include "clock.h"
#include "limit_bound.h"
#include "lock.h"
#include "session_device.h"
#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/device/device.h"
#include "server/schedule/deferred.h"
#include "server/schedule/quiet.h"
#include "do_share.h"

/*
 * How long a raise of the stack waits for blocked streams and for work. The caller holds the lock
 * meanwhile.
 */
#define BLOCKED_WAIT_MS 5000

/* The same to lower it: another attempt can follow. */
#define BLOCKED_LOWER_MS 1

/* A stack that the driver has refused is not requested again for this long, nor a larger one. */
#define REFUSED_MS 10000

/* Protects the raised_limits of every device. */
static struct lock lock = LOCK_INIT(CU_LIMITS);

/*
 * The heap for kernels that allocate. The driver can enlarge it only until the first such
 * kernel of any client has run. The limit that clients see stays.
 */
#define HEAP_SIZE (64u << 20)

static void cu_limits_lower(void);

static const char *limit_name(CUlimit limit)
{
	return limit == CU_LIMIT_STACK_SIZE         ? "the stack of a thread"
	       : limit == CU_LIMIT_MALLOC_HEAP_SIZE ? "the heap"
						    : "the buffer of printf";
}

/* Wraps to 0 above the highest power. */
static uint64_t power_above(uint64_t value)
{
	uint64_t power = 1;

	while (power && power < value)
		power <<= 1;
	return power;
}

static CUresult set_limit(
	struct session *session, struct device *device, CUlimit limit, uint64_t value)
{
	size_t now = 0;
	CUresult result;

	/* Before the call: a graph may be made as soon as the stack is larger. */
	if (limit == CU_LIMIT_STACK_SIZE)
		atomic_store(&device->raised->is_stack_large, true);
	result = cuda.cuCtxSetLimit(limit, value);
	if (result == CUDA_SUCCESS)
		result = cuda.cuCtxGetLimit(&now, limit);
	if (result != CUDA_SUCCESS)
		return result;
	device->raised->now[limit] = MAX(now, value);
	device->raised->set[limit] = value;
	log_line("Client " SESSION_NAME " raised %s of device %u to %llu bytes, for all clients",
		SESSION_NAME_ARGS(session), limit_name(limit), device->ordinal,
		(unsigned long long)now);
	return CUDA_SUCCESS;
}

/*
 * If the driver refuses the power of two, the requested size may still fit. But then a
 * client could continue in small steps, or fail forever. So no refused size is tried again
 * for a while.
 */
static CUresult set_stack(struct session *session, struct device *device, uint64_t value)
{
	uint64_t power = power_above(value);
	CUresult result = set_limit(session, device, CU_LIMIT_STACK_SIZE, power ? power : value);

	if (result == CUDA_SUCCESS || result_is_fault(result))
		return result;
	device->raised->stack_refused = power ? power : value;
	device->raised->stack_refusal = result;
	if (power && power != value)
		result = set_limit(session, device, CU_LIMIT_STACK_SIZE, value);
	device->raised->stack_refused_ms = now_ms();
	return result;
}

/* Whether the driver has recently refused this size. Under the lock. */
static bool is_refused(const struct device *device, uint64_t bytes)
{
	return device->raised->stack_refused && bytes >= device->raised->stack_refused &&
	       now_ms() - device->raised->stack_refused_ms < REFUSED_MS;
}

/* Steps of an eighth: a kernel's size need not be doubled, and not every size should be set. */
static uint64_t step_above(uint64_t value)
{
	uint64_t step = MAX(power_above(value) / 16, 16u);

	return (value + step - 1) / step * step;
}

/*
 * The result for a stack of `bytes' that is known without the driver, of which `tried' would be
 * asked; CUDA_ERROR_NOT_READY: unknown. Under the lock.
 */
static CUresult stack_known(const struct device *device, uint64_t bytes, uint64_t tried)
{
	uint64_t stack =
		MAX(device->limits[CU_LIMIT_STACK_SIZE], device->raised->now[CU_LIMIT_STACK_SIZE]);

	if (bytes <= stack)
		return CUDA_SUCCESS;
	return is_refused(device, tried) ? device->raised->stack_refusal : CUDA_ERROR_NOT_READY;
}

/* While no stream is blocked. Under the lock. */
static CUresult limit_cover(struct session *session, struct device *device, uint64_t bytes)
{
	uint64_t most = step_above(bytes);
	CUresult result = stack_known(device, bytes, bytes);

	if (result != CUDA_ERROR_NOT_READY)
		return result;
	if (!is_refused(device, most))
		result = set_limit(session, device, CU_LIMIT_STACK_SIZE, most);
	if (result != CUDA_SUCCESS && !result_is_fault(result))
		result = set_limit(session, device, CU_LIMIT_STACK_SIZE, bytes);
	if (result != CUDA_SUCCESS && !result_is_fault(result)) {
		device->raised->stack_refused = bytes;
		device->raised->stack_refusal = result;
		device->raised->stack_refused_ms = now_ms();
	}
	return result;
}

/* Under the lock. */
static void list_asks(struct session_device *sdev)
{
	struct cu_limit_asks *asks = &sdev->asks;

	if (asks->is_listed)
		return;
	asks->is_listed = true;
	LIST_PUSH(sdev->device->raised->asks, asks);
}

/* The highest request of a session; never below the first value. Under the lock. */
static uint64_t most_asked(const struct device *device, CUlimit limit)
{
	uint64_t most = device->limits[limit];

	if (limit == CU_LIMIT_MALLOC_HEAP_SIZE)
		most = MAX(most, device->raised->heap_first);
	for (const struct cu_limit_asks *asks = device->raised->asks; asks; asks = asks->next)
		most = MAX(most, asks->value[limit]);
	return most;
}

/* The value to which the limit may be lowered. Under the lock. */
static uint64_t most_needed(const struct device *device, CUlimit limit)
{
	uint64_t most = most_asked(device, limit);

	if (limit == CU_LIMIT_STACK_SIZE)
		for (const struct cu_limit_asks *asks = device->raised->asks; asks;
			asks = asks->next)
			most = MAX(most, asks->graph_stack);
	return most;
}

/*
 * After a change of what sessions ask for. The stack may exceed that by rounding. Under the lock.
 */
static void note_stack_kept(struct device *device)
{
	uint64_t power = power_above(most_asked(device, CU_LIMIT_STACK_SIZE));

	atomic_store(&device->raised->is_stack_kept,
		power && device->raised->set[CU_LIMIT_STACK_SIZE] > power);
}

/* Under the lock. */
static void note_ask(struct session_device *sdev, CUlimit limit, uint64_t value)
{
	sdev->asks.value[limit] = MAX(sdev->asks.value[limit], value);
	list_asks(sdev);
	note_stack_kept(sdev->device);
}

/* As stack_known(). What is there already becomes a request of the session. */
static CUresult stack_ask_known(struct session_device *sdev, uint64_t bytes, uint64_t tried)
{
	CUresult result;

	lock_take(&lock);
	result = stack_known(sdev->device, bytes, tried);
	if (result == CUDA_SUCCESS)
		note_ask(sdev, CU_LIMIT_STACK_SIZE, bytes);
	lock_release(&lock);
	return result;
}

CUresult cu_limit_cover_local(struct session *session, struct device *device, uint32_t bytes)
{
	struct session_device *sdev = session_device_get(session, device->ordinal);
	CUresult result;

	if (likely(bytes <= device->limits[CU_LIMIT_STACK_SIZE]))
		return CUDA_SUCCESS;
	result = stack_ask_known(sdev, bytes, bytes);
	if (result != CUDA_ERROR_NOT_READY)
		return result;
	if (!quiet_call_begin(session, device, 0))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	lock_take(&lock);
	result = limit_cover(session, device, bytes);
	if (result == CUDA_SUCCESS)
		note_ask(sdev, CU_LIMIT_STACK_SIZE, bytes);
	lock_release(&lock);
	quiet_call_end(device);
	return result;
}

/* ---- lowering */

/* Under the lock. */
static bool is_too_high(const struct device *device)
{
	for (unsigned i = 0; i < LIMITS_RAISED; i++)
		if (device->raised->set[i] > most_needed(device, (CUlimit)i))
			return true;
	return false;
}

static void limit_unlock(const struct device *device)
{
	bool wants_lower = device->raised->wants_lower;

	lock_release(&lock);
	if (wants_lower)
		deferred_when_idle(cu_limits_lower);
}

void cu_limits_forget(struct session_device *sdev, bool device_lost)
{
	struct device *device = sdev->device;
	struct cu_limit_asks **link = &device->raised->asks;

	if (!sdev->asks.is_listed)
		return;
	lock_take(&lock);
	while (*link != &sdev->asks)
		link = &(*link)->next;
	*link = sdev->asks.next;
	sdev->asks = (struct cu_limit_asks){0};
	note_stack_kept(device);
	device->raised->wants_lower = !device_lost && is_too_high(device);
	limit_unlock(device);
}

/*
 * Changes the number before the flag: a worker that finds the flag false then finds the number
 * changed. Under the lock.
 */
static void note_stack_lowered(struct device *device)
{
	device->raised->stack_refused = 0;
	atomic_fetch_add(&device->raised->n_stack_lowered, 1);
	atomic_store(&device->raised->is_stack_large,
		device->raised->set[CU_LIMIT_STACK_SIZE] > device->limits[CU_LIMIT_STACK_SIZE]);
	note_stack_kept(device);
}

/* With the GPU's context current. If the driver refuses, the limit stays. Under the lock. */
static void limit_lower(struct device *device, CUlimit limit)
{
	uint64_t most = most_needed(device, limit);
	size_t now = 0;

	if (device->raised->set[limit] <= most || cuda.cuCtxSetLimit(limit, most) != CUDA_SUCCESS)
		return;
	device->raised->set[limit] = most;
	if (limit == CU_LIMIT_STACK_SIZE)
		note_stack_lowered(device);
	if (cuda.cuCtxGetLimit(&now, limit) != CUDA_SUCCESS)
		return;
	device->raised->now[limit] = now;
	log_line("Lowered %s of device %u to %llu bytes: no client asks for more",
		limit_name(limit), device->ordinal, (unsigned long long)now);
}

static void lower_all(struct device *device)
{
	if (!quiet_call_begin(NULL, device, BLOCKED_LOWER_MS))
		return;
	lock_take(&lock);
	if (fault_get() == CUDA_SUCCESS && cuda.cuCtxSetCurrent(device->context) == CUDA_SUCCESS)
		for (unsigned i = 0; i < LIMITS_RAISED; i++)
			limit_lower(device, (CUlimit)i);
	lock_release(&lock);
	quiet_call_end(device);
}

/* Whether a limit is to be lowered. Each wish is heard once. */
static bool take_wish(struct device *device)
{
	bool wants_lower;

	lock_take(&lock);
	wants_lower = device->raised->wants_lower;
	device->raised->wants_lower = false;
	lock_release(&lock);
	return wants_lower;
}

/*
 * Lowers limits that no session requests any more. A limit that the driver refuses to lower stays
 * until another session leaves. The deferred thread.
 */
static void cu_limits_lower(void)
{
	for (uint32_t i = 0; i < devices_count(); i++)
		if (take_wish(device_get(i)))
			lower_all(device_get(i));
}

/* ---- graphs */

unsigned cu_limit_n_stack_lowered(const struct device *device)
{
	return atomic_load(&device->raised->n_stack_lowered);
}

bool cu_limit_is_stack_kept(const struct device *device)
{
	return atomic_load(&device->raised->is_stack_kept);
}

void cu_limit_keep_stack(struct session_device *sdev, bool *keeps)
{
	struct device *device = sdev->device;
	struct cu_limit_asks *asks = &sdev->asks;
	uint64_t stack;

	if (likely(!atomic_load(&device->raised->is_stack_large)))
		return;
	lock_take(&lock);
	stack = device->raised->set[CU_LIMIT_STACK_SIZE];
	if (stack > device->limits[CU_LIMIT_STACK_SIZE]) {
		list_asks(sdev);
		asks->graph_stack = MAX(asks->graph_stack, stack);
		asks->n_graphs += !*keeps;
		*keeps = true;
	}
	lock_release(&lock);
}

void cu_limit_release_stack(struct session_device *sdev)
{
	struct device *device = sdev->device;

	lock_take(&lock);
	if (--sdev->asks.n_graphs == 0) {
		sdev->asks.graph_stack = 0;
		device->raised->wants_lower = is_too_high(device);
	}
	limit_unlock(device);
}

/* ---- raising */

/* Refuses as the driver does without memory. */
static CUresult limit_refuse(
	struct session *session, struct session_device *sdev, CUlimit limit, uint64_t value)
{
	if (!sdev->asks.is_refusal_logged)
		log_line("Client " SESSION_NAME " asked for %llu bytes for %s of device %u and is "
			 "refused: at most %llu bytes, as all clients share it",
			SESSION_NAME_ARGS(session), (unsigned long long)value, limit_name(limit),
			sdev->device->ordinal, (unsigned long long)limit_bound(limit));
	sdev->asks.is_refusal_logged = true;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/*
 * The driver waits for all that is on the GPU, so the server does before, without the lock: other
 * sessions need the lock for their kernels and graphs.
 */
static CUresult raise_stack(struct session *session, struct session_device *sdev, uint64_t value)
{
	struct device *device = sdev->device;
	uint64_t power = power_above(value), tried = power ? power : UINT64_MAX;
	CUresult result = stack_ask_known(sdev, value, tried);

	if (result != CUDA_ERROR_NOT_READY)
		return result;
	if (!quiet_call_begin(session, device, BLOCKED_WAIT_MS)) {
		log_line("Client " SESSION_NAME " asked for a stack of %llu bytes and is refused: "
			 "streams of other clients are blocked, or their work does not end",
			SESSION_NAME_ARGS(session), (unsigned long long)value);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	lock_take(&lock);
	result = stack_known(device, value, tried);
	if (result == CUDA_ERROR_NOT_READY)
		result = set_stack(session, device, value);
	if (result == CUDA_SUCCESS)
		note_ask(sdev, CU_LIMIT_STACK_SIZE, value);
	lock_release(&lock);
	quiet_call_end(device);
	return result;
}

/* The driver waits for nothing. */
static CUresult raise_other(
	struct session *session, struct session_device *sdev, CUlimit limit, uint64_t value)
{
	struct device *device = sdev->device;
	CUresult result = CUDA_SUCCESS;

	lock_take(&lock);
	if (value > MAX(device->limits[limit], device->raised->now[limit]))
		result = set_limit(session, device, limit, value);
	if (result == CUDA_SUCCESS)
		note_ask(sdev, limit, value);
	lock_release(&lock);
	return result;
}

CUresult do_limit_raise(struct session *session, uint32_t ordinal, uint32_t limit, uint64_t value)
{
	struct session_device *sdev;
	CUresult result = session_device_get_entered(session, ordinal, &sdev);

	if (result != CUDA_SUCCESS)
		return result;
	if (value > limit_bound((CUlimit)limit))
		return limit_refuse(session, sdev, (CUlimit)limit, value);
	return limit == CU_LIMIT_STACK_SIZE ? raise_stack(session, sdev, value)
					    : raise_other(session, sdev, (CUlimit)limit, value);
}

/* ---- GPUs */

static CUresult cu_limit_begin(struct device *device)
{
	static struct raised_limits all[DEVICES_MAX];

	device->raised = &all[device->ordinal];
	return CUDA_SUCCESS;
}

static CUresult cu_limit_open(struct device *device)
{
	if (device->limits[CU_LIMIT_MALLOC_HEAP_SIZE] < HEAP_SIZE &&
		cuda.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_SIZE) == CUDA_SUCCESS)
		device->raised->now[CU_LIMIT_MALLOC_HEAP_SIZE] = device->raised->heap_first =
			HEAP_SIZE;
	return CUDA_SUCCESS;
}

const struct device_part cu_limit_part = {
	.begin = cu_limit_begin,
	.open = cu_limit_open,
};
