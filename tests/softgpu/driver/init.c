/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuInit(), and the beginning of every entry point.
 *
 * Runs in any thread. After call_enter(), the caller holds the driver's lock until
 * call_leave(), even if call_enter() failed.
 */

#include "driver.h"
#include "tests/softgpu/driver/stream/context.h"
#include "tests/softgpu/driver/stream/current.h"
#include "tests/softgpu/driver/stream/stream.h"

struct driver driver = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.progress = PTHREAD_COND_INITIALIZER,
};

static bool has_switch;
static bool is_forked;
static _Thread_local bool is_forbidden;

void call_forbid(bool forbid)
{
	is_forbidden = forbid;
}

static CUresult call_check(enum call_needs needs)
{
	if (needs == CALL_ANYTIME)
		return CUDA_SUCCESS;
	if (!driver.is_initialized || is_forked)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (is_forbidden)
		return CUDA_ERROR_NOT_PERMITTED;
	if (needs == CALL_INIT)
		return CUDA_SUCCESS;
	if (driver.fault != CUDA_SUCCESS)
		return driver.fault;
	if (needs == CALL_ALIVE || (needs == CALL_OBJECT && !current_top()))
		return CUDA_SUCCESS;
	return context_check();
}

CUresult call_enter(const char *name, enum call_needs needs)
{
	CUresult result;

	pthread_mutex_lock(&driver.lock);
	while (driver.is_held && needs != CALL_ANYTIME && !is_forbidden)
		pthread_cond_wait(&driver.progress, &driver.lock);
	if (!has_switch) {
		has_switch = true;
		fault_init();
	}
	result = fault_next(name);
	if (result_is_sticky(result))
		streams_fault(result);
	return result != CUDA_SUCCESS ? result : call_check(needs);
}

void call_leave(const CUresult *entered)
{
	(void)entered;
	pthread_mutex_unlock(&driver.lock);
	user_objects_destroy();
}

CUresult call_absent(const char *name)
{
	_cleanup_(call_leave) CUresult result = call_enter(name, CALL_INIT);

	return result != CUDA_SUCCESS ? result : CUDA_ERROR_NOT_SUPPORTED;
}

static void fork_prepare(void)
{
	pthread_mutex_lock(&driver.lock);
}

static void fork_parent(void)
{
	pthread_mutex_unlock(&driver.lock);
}

/* A forked child has no streams' threads, and therefore no GPU. */
static void fork_child(void)
{
	is_forked = true;
	pthread_mutex_unlock(&driver.lock);
}

static CUresult driver_init(void)
{
	CUresult result;

	driver.loops_alone = env_number("SOFTGPU_LOOPS_ALONE", 0) > 0;
	driver.takes_turns = env_number("SOFTGPU_TURNS", 0) == 1;
	driver.launch_us = (uint32_t)env_number("SOFTGPU_LAUNCH_US", 0);
	driver.copy_us = (uint32_t)env_number("SOFTGPU_COPY_US", 0);
	driver.unpin_us = (uint32_t)env_number("SOFTGPU_UNPIN_US", 0);
	stats_open();
	result = devices_init();
	if (result != CUDA_SUCCESS)
		return result;
	if (pthread_atfork(fork_prepare, fork_parent, fork_child) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	driver.is_initialized = true;
	return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int Flags)
{
	ENTER(CALL_ANYTIME);
	if (Flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_forked)
		return CUDA_ERROR_NOT_INITIALIZED;
	return driver.is_initialized ? CUDA_SUCCESS : driver_init();
}

CUresult cuDriverGetVersion(int *driverVersion)
{
	ENTER(CALL_ANYTIME);
	if (!driverVersion)
		return CUDA_ERROR_INVALID_VALUE;
	*driverVersion = (int)env_number("SOFTGPU_DRIVER_VERSION", DRIVER_VERSION);
	return CUDA_SUCCESS;
}
