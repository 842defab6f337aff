/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Closes and opens GPUs, and makes workers wait meanwhile. Any worker, and the deferred thread.
 *
 * Invariant: no worker waits for a closed GPU beyond `until_ns' and `lone_until_ns', so a thread
 * that has closed a GPU may hold any lock.
 */

#include "closed_gpu.h"

#include "clock.h"
#include "gate.h"
#include "lock.h"
#include "probation.h"
#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/device/device.h"

static struct lock lock = LOCK_INIT(CLOSED_GPUS);

static CUresult closed_gpu_begin(struct device *device)
{
	static struct closed_gpu all[DEVICES_MAX];

	device->closed = &all[device->ordinal];
	return CUDA_SUCCESS;
}

const struct device_part closed_gpu_part = {.begin = closed_gpu_begin};

void closed_begin(struct closed_gpu *closed, uint64_t until_ns)
{
	lock_take(&lock);
	if (closed->n++ == 0)
		atomic_fetch_add(&launching_n_reasons, 1);
	if (atomic_load(&closed->until_ns) < until_ns)
		atomic_store(&closed->until_ns, until_ns);
	lock_release(&lock);
}

/* Under the lock. */
static void count_opened(struct closed_gpu *closed)
{
	if (--closed->n == 0) {
		atomic_store(&closed->until_ns, 0);
		atomic_fetch_sub(&launching_n_reasons, 1);
	}
}

void closed_end(struct closed_gpu *closed)
{
	lock_take(&lock);
	count_opened(closed);
	lock_release(&lock);
}

bool closed_end_lone(struct closed_gpu *closed, uint64_t number)
{
	bool is_it;

	lock_take(&lock);
	is_it = atomic_load(&closed->lone_number) == number;
	if (is_it) {
		atomic_store(&closed->lone_number, 0);
		atomic_store(&closed->lone_until_ns, 0);
		count_opened(closed);
	}
	lock_release(&lock);
	return is_it;
}

/* Opens the GPU if lone work has ended, or has lasted too long. Any worker. */
static void look(struct closed_gpu *closed)
{
	const uint64_t number = atomic_load(&closed->lone_number);
	const uint64_t until_ns = atomic_load(&closed->lone_until_ns);
	const uint64_t client = atomic_load(&closed->lone_client);
	bool has_ended;

	if (number == 0)
		return;
	has_ended = cuda.cuEventQuery(closed->lone) != CUDA_ERROR_NOT_READY;
	if (!has_ended && now_ns() < until_ns)
		return;
	if (closed_end_lone(closed, number) && !has_ended)
		log_line("Client {PID: %d, Context ID: %u}: a loop on the GPU has taken more than "
			 "%u s. Other clients go on beside it, so the driver can fail with "
			 "CUDA_ERROR_LAUNCH_FAILED for all of them: start the program with "
			 "MPS_ISOLATE=1",
			(int)(client >> 32), (unsigned)client,
			(unsigned)(CLOSED_MAX_NS / 1000000000));
}

bool closed_keep(struct closed_gpu *closed)
{
	look(closed); /* The lone work before has ended. */
	atomic_store(&closed->lone_until_ns, now_ns() + CLOSED_MAX_NS);
	if (now_ns() < atomic_load(&closed->until_ns))
		return true;
	closed_end_lone(closed, 0);
	return false;
}

void closed_launched(struct closed_gpu *closed, const struct session *session)
{
	static _Atomic uint64_t n_lone;

	atomic_store(&closed->lone_client, (uint64_t)session->pid << 32 | session->id);
	atomic_store(&closed->lone_number, atomic_fetch_add(&n_lone, 1) + 1);
}

/* The worker that has closed the GPU for lone work finds it open. */
static bool is_closed_for(
	const struct session *session, const struct closed_gpu *closed, uint64_t now)
{
	return !session->launching->is_lone &&
	       (atomic_load(&closed->until_ns) > now || atomic_load(&closed->lone_until_ns) > now);
}

bool closed_for_call(const struct closed_gpu *closed)
{
	return atomic_load(&closed->until_ns) > now_ns();
}

static bool waits_no_more(const struct session *session)
{
	return atomic_load(&session->is_ending) || fault_get() != CUDA_SUCCESS;
}

/* It may be the session's own. */
static void say_lone(struct gate_wait *wait, const struct closed_gpu *closed)
{
	const uint64_t client = atomic_load(&closed->lone_client);

	if (atomic_load(&closed->lone_number) > 0 && (uint32_t)client != wait->session->id)
		gate_say_held_up(wait, (int)(client >> 32), (uint32_t)client);
}

#define PROBATION_TEXT                                                                             \
	"waits until other programs have no work on the GPU: it is on probation, because its "     \
	"program has caused a GPU fault"

static void wait_for_turn(
	struct gate_wait *wait, struct session *session, struct device *device, uint64_t since_ns)
{
	gate_next(wait, GATE_PROBATION, 0);
	while (probation_has_no_turn(session, device, since_ns)) {
		if (!gate_again(wait)) {
			probation_give_up(session, device);
			return;
		}
		gate_say(wait, PROBATION_TEXT);
	}
}

void closed_wait(struct session *session, struct device *device)
{
	_cleanup_(gate_end) struct gate_wait wait = gate_wait(GATE_CLOSED, session);
	const uint64_t start_ns = now_ns();

	look(device->closed);
	while ((is_closed_for(session, device->closed, now_ns()) ||
		       probation_holds(session, device)) &&
		gate_again(&wait)) {
		look(device->closed);
		say_lone(&wait, device->closed);
	}
	probation_end_hold(session);
	wait_for_turn(&wait, session, device, start_ns);
}

void closed_wait_again(struct session *session, struct device *device)
{
	atomic_thread_fence(memory_order_seq_cst);
	closed_wait(session, device);
}

/* The order of these atomics and those of closed_begin() matters: one of both sees the other. */
bool launching_begin_late(struct launching *launching, struct device *device)
{
	struct session *session = launching->session;
	const uint64_t start_ns = now_ns();

	while (is_closed_for(session, device->closed, now_ns()) ||
		probation_holds(session, device) ||
		probation_has_no_turn(session, device, start_ns)) {
		if (waits_no_more(session)) {
			probation_end_hold(session);
			return false;
		}
		atomic_store(&launching->is_on, false);
		closed_wait(session, device);
		atomic_store(&launching->is_on, true);
	}
	return true;
}
