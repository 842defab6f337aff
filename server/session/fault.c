/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whether the context is lost. Any thread.
 *
 * Invariant: once set it never changes: the first fault is reported.
 */

#include "fault.h"

#include <stdatomic.h>

#include "lock.h"
#include "session.h"
#include "session_part.h"

static struct lock noting = LOCK_INIT(FAULT);
static _Atomic uint64_t first; /* session << 32 | CUresult; changed under the lock */

bool result_is_fault(CUresult result)
{
	switch (result) {
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_CONTAINED:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_TENSOR_MEMORY_LEAK:
		return true;
	default:
		return false;
	}
}

bool result_is_of_memory(CUresult fault)
{
	return fault == CUDA_ERROR_ECC_UNCORRECTABLE || fault == CUDA_ERROR_NVLINK_UNCORRECTABLE ||
	       fault == CUDA_ERROR_CONTAINED;
}

CUresult fault_get(void)
{
	return (CUresult)(uint32_t)atomic_load_explicit(&first, memory_order_relaxed);
}

uint32_t fault_session(void)
{
	return (uint32_t)(atomic_load(&first) >> 32);
}

/* Whether it is the first one. The other threads go on when the parts have seen it, too. */
static __attribute__((noinline)) bool fault_is_first(struct session *session, CUresult result)
{
	lock_hold(&noting);

	if (fault_get() != CUDA_SUCCESS)
		return false;
	each_part(session_parts, fault, session);
	atomic_store(&first, (uint64_t)session->id << 32 | (uint32_t)result);
	return true;
}

bool fault_spares(const struct session *session)
{
	const CUresult fault = fault_get();

	return fault != CUDA_SUCCESS && !result_is_of_memory(fault) &&
	       (session->continues || !atomic_load(&session->had_work)) &&
	       !atomic_load(&session->is_ending);
}

bool fault_drops(const struct session *session)
{
	return fault_spares(session) && atomic_load(&session->had_work);
}

static void hold(struct session *session)
{
	atomic_store(&session->is_moving, true);
	atomic_store(&session->is_held, true);
}

void fault_put_back(struct session *session, const void *byte)
{
	/* A launch may be in the ring no more: then it is lost as if it had been on the GPU. */
	if (!ring_put_back(&session->receiver, byte)) {
		if (session->continues)
			atomic_store(&session->had_work, true);
		else
			session->has_lost = true;
	}
	hold(session);
}

CUresult fault_note(struct session *session, CUresult result)
{
	bool is_first;

	if (likely(!result_is_fault(result)))
		return result;
	is_first = fault_is_first(session, result);
	/* Whether the client gets the error is decided later: its worker waits until then. */
	if (fault_spares(session))
		hold(session);
	else
		session_set_fault(session, result);
	if (is_first)
		session->on_news(session->on_news_arg);
	return result;
}

bool fault_explains(CUresult result)
{
	return result != CUDA_SUCCESS && (result_is_fault(result) || fault_get() != CUDA_SUCCESS);
}

CUresult fault_note_failure(struct session *session, CUresult result)
{
	const CUresult fault = fault_get();

	return fault_note(
		session, result != CUDA_SUCCESS && fault != CUDA_SUCCESS ? fault : result);
}

void fault_forget(void)
{
	atomic_store(&first, 0);
}
