/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sessions on probation, and whose turn each GPU is. Any worker.
 *
 * Invariant: the owner of a turn is published before the worker looks at the work of others, and a
 * worker that launches says so before it looks at the owner: one of both sees the other.
 */

#include "probation.h"

#include <stdatomic.h>

#include "base.h"
#include "clock.h"
#include "launching.h"
#include "lock.h"
#include "probation_turn.h"
#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/device/device.h"

#define MS UINT64_C(1000000)

/* A session's part. */
struct probation {
	_Atomic uint64_t end_ns; /* 0: it is not on probation */
	bool is_counted;         /* in launching_n_reasons */
};

/* A GPU's part. */
struct probation_gpu {
	struct probation_turn turn; /* under the lock */
	_Atomic uint64_t owner;     /* as in `turn' */
	CUevent _Atomic work;       /* behind the work of the turn; NULL: never needed */
	_Atomic uint64_t drained;   /* the program in whose drain `work' was recorded; 0: none */
	_Atomic uint64_t spent;     /* the program whose turn was spent when it was; 0: none */
};

static struct lock lock = LOCK_INIT(PROBATION);

/* ---- parts */

static void probation_init(struct session *session, void *memory)
{
	session->probation = memory;
}

static void set_counted(struct probation *probation, bool is_counted)
{
	if (probation->is_counted == is_counted)
		return;
	probation->is_counted = is_counted;
	if (is_counted)
		atomic_fetch_add(&launching_n_reasons, 1);
	else
		atomic_fetch_sub(&launching_n_reasons, 1);
}

static void probation_leave(struct session *session, _unused_ bool device_lost)
{
	set_counted(session->probation, false);
}

const struct session_part probation_part = {
	.size = sizeof(struct probation),
	.begin = probation_init,
	.end = probation_leave,
};

static CUresult probation_begin(struct device *device)
{
	static struct probation_gpu all[DEVICES_MAX];

	device->probation = &all[device->ordinal];
	return CUDA_SUCCESS;
}

static void probation_close(void)
{
	for (uint32_t i = 0; i < devices_count(); i++) {
		CUevent event = atomic_exchange(&device_get(i)->probation->work, NULL);

		if (event)
			cuda.cuEventDestroy_v2(event);
	}
}

const struct device_part probation_device_part = {
	.begin = probation_begin,
	.close = probation_close,
};

/* ---- who is on probation */

void probation_set(struct session *session, uint32_t ms)
{
	if (ms == 0)
		return;
	atomic_store(&session->probation->end_ns, now_ns() + ms * MS);
	set_counted(session->probation, true);
	log_line("Client " SESSION_NAME " is on probation for %u s, because its program has "
		 "caused a GPU fault: it gets the GPU while no other program has work. With "
		 "MPS_ISOLATE=1 it starts in a server of its own, without probation",
		SESSION_NAME_ARGS(session), (unsigned)((ms + 999) / 1000));
}

uint32_t probation_left_ms(const struct session *session)
{
	const uint64_t end_ns = atomic_load(&session->probation->end_ns), now = now_ns();

	return now < end_ns ? (uint32_t)((end_ns - now + MS - 1) / MS) : 0;
}

/* The worker. */
static bool is_on_probation(struct session *session)
{
	struct probation *probation = session->probation;

	if (likely(atomic_load(&probation->end_ns) == 0))
		return false;
	if (now_ns() < atomic_load(&probation->end_ns))
		return true;
	atomic_store(&probation->end_ns, 0);
	set_counted(probation, false);
	log_line("Client " SESSION_NAME " is no longer on probation", SESSION_NAME_ARGS(session));
	return false;
}

/* ---- turns */

/* Under the lock. */
static void publish(struct probation_gpu *gpu)
{
	if (atomic_load(&gpu->owner) == gpu->turn.owner)
		return;
	atomic_store(&gpu->drained, 0);
	atomic_store(&gpu->spent, 0);
	atomic_store(&gpu->owner, gpu->turn.owner);
}

/* The work of the owner ends: it launches nothing more. */
static bool owner_works(const struct device *device, uint64_t owner)
{
	const struct probation_gpu *gpu = device->probation;

	return launching_works(device, owner) &&
	       (atomic_load(&gpu->spent) != owner ||
		       cuda.cuEventQuery(atomic_load(&gpu->work)) == CUDA_ERROR_NOT_READY);
}

/* One look. */
static bool is_held(const struct session *session, struct device *device)
{
	struct probation_gpu *gpu = device->probation;
	const uint64_t owner = atomic_load(&gpu->owner);
	bool is_held = true, works;

	if (owner == 0 || owner == launching_program(session))
		return false;
	works = owner_works(device, owner);
	lock_take(&lock);
	if (gpu->turn.owner == owner)
		is_held = probation_turn_holds(&gpu->turn, now_ns(), works);
	if (is_held && gpu->turn.is_drained && atomic_load(&session->launching->held_at) > 0)
		atomic_store(&session->launching->is_at_rest, true);
	publish(gpu);
	lock_release(&lock);
	return is_held;
}

/* NULL: the driver has none. The GPU's context is current. */
static CUevent get_event(struct session *session, struct probation_gpu *gpu)
{
	CUevent event = atomic_load(&gpu->work), none = NULL;

	if (event || fault_note(session, cuda.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)) !=
			     CUDA_SUCCESS)
		return event;
	if (atomic_compare_exchange_strong(&gpu->work, &none, event))
		return event;
	cuda.cuEventDestroy_v2(event);
	return none;
}

/*
 * The work of the turn may have faulted, and no worker has noted that. If the session noted it at
 * its own next work, the fault would cost the session that work.
 */
static void look_for_fault(struct session *session, const struct device *device)
{
	CUevent event = get_event(session, device->probation);

	if (event)
		(void)fault_note(session, cuda.cuEventQuery(event));
}

bool probation_holds(struct session *session, struct device *device)
{
	struct launching *launching = session->launching;

	if (is_held(session, device)) {
		atomic_store(&launching->held_at, device->ordinal + 1);
		return true;
	}
	if (atomic_load(&launching->held_at) == 0)
		return false;
	look_for_fault(session, device);
	/* The program whose turn is next has seen one of both: that it is held, or this look. */
	probation_end_hold(session);
	return is_held(session, device);
}

void probation_end_hold(struct session *session)
{
	atomic_store(&session->launching->is_at_rest, false);
	atomic_store(&session->launching->held_at, 0);
}

/*
 * Whether work is on the GPU that was there when this was called first for a turn. Streams may
 * count as busy for work that waits here, so an event tells.
 */
static bool has_noted_work(struct session *session, const struct device *device,
	_Atomic uint64_t *noted_for, uint64_t program)
{
	struct probation_gpu *gpu = device->probation;
	CUevent event = get_event(session, gpu);

	if (!event)
		return true;
	if (atomic_load(noted_for) != program) {
		if (cuda.cuCtxRecordEvent(device->context, event) != CUDA_SUCCESS)
			return true;
		atomic_store(noted_for, program);
	}
	return cuda.cuEventQuery(event) == CUDA_ERROR_NOT_READY;
}

/* Sessions that are held add nothing during the turn. */
static bool others_work(
	struct session *session, const struct device *device, uint64_t program, bool is_draining)
{
	const enum launching_work work = launching_others(device, program);

	return work == WORK_SOME ||
	       (work == WORK_IF_ANY &&
		       (!is_draining || has_noted_work(session, device, &device->probation->drained,
						program)));
}

/* What the rules need to know. Looks at sessions and at the driver only if it matters. */
static struct probation_view look(struct session *session, struct probation_gpu *gpu,
	const struct device *device, uint64_t program, uint64_t since_ns)
{
	struct probation_view view = {.since_ns = since_ns};
	bool is_owner, may_launch, is_spent;

	lock_take(&lock);
	is_owner = gpu->turn.owner == program;
	may_launch = is_owner && gpu->turn.is_drained;
	is_spent = may_launch && probation_turn_is_spent(&gpu->turn, now_ns());
	lock_release(&lock);
	if (!may_launch)
		view.others_work = others_work(session, device, program, is_owner);
	if (is_spent)
		view.own_work = has_noted_work(session, device, &gpu->spent, program);
	view.now_ns = now_ns();
	return view;
}

bool probation_has_no_turn(struct session *session, struct device *device, uint64_t since_ns)
{
	struct probation_gpu *gpu = device->probation;
	const uint64_t program = launching_program(session);
	struct probation_view view;
	bool may;

	if (!is_on_probation(session))
		return false;
	view = look(session, gpu, device, program, since_ns);
	lock_take(&lock);
	may = probation_turn_take(&gpu->turn, program, &view);
	publish(gpu);
	lock_release(&lock);
	return !may;
}

void probation_give_up(struct session *session, struct device *device)
{
	struct probation_gpu *gpu = device->probation;

	lock_take(&lock);
	probation_turn_end(&gpu->turn, launching_program(session), now_ns());
	publish(gpu);
	lock_release(&lock);
}
