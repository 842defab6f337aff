/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The controllers of the GPUs, one for each. Workers.
 *
 * Invariant: a controller is used under the lock of its GPU, and is ready before.
 */

#include "elastic.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "bounds.h"
#include "lock.h"
#include "server/util/log.h"
#include "server/util/number.h"
#include "server/device/device.h"

static struct elastic {
	struct lock lock;
	_Atomic uint64_t foreground_ns; /* when it was last at work; 0: never. Without the lock */
	bool is_ready;
	struct share_controller controller;
} gpus[DEVICES_MAX] = {[0 ... DEVICES_MAX - 1] = {.lock = LOCK_INIT(ELASTIC)}};

static unsigned target_percent, floor_percent;

/* MPS_TEST=shares: each launch of a background session gets another share, for tests. */
static bool is_test;

void elastic_init(void)
{
	const char *test = getenv("MPS_TEST");

	target_percent = (unsigned)number_setting("MPS_FOREGROUND_SLOWDOWN", "percent",
		FOREGROUND_SLOWDOWN_MIN, FOREGROUND_SLOWDOWN_MAX, FOREGROUND_SLOWDOWN_DEFAULT);
	floor_percent = (unsigned)number_setting("MPS_BACKGROUND_FLOOR", "percent",
		BACKGROUND_FLOOR_MIN, BACKGROUND_FLOOR_MAX, BACKGROUND_FLOOR_DEFAULT);
	is_test = test && strcmp(test, "shares") == 0;
	if (is_test)
		log_line("MPS_TEST=shares: the share of background clients changes at each launch");
}

void elastic_note_foreground(const struct device *device, uint64_t now)
{
	atomic_store_explicit(&gpus[device->ordinal].foreground_ns, now, memory_order_relaxed);
}

static bool was_at_work(const struct device *device, uint64_t now, uint64_t within_ns)
{
	uint64_t last_ns =
		atomic_load_explicit(&gpus[device->ordinal].foreground_ns, memory_order_relaxed);

	/* Another thread may have noted a later time. */
	return last_ns > 0 && (now < last_ns || now - last_ns < within_ns);
}

bool elastic_has_foreground(const struct device *device, uint64_t now)
{
	return is_test || was_at_work(device, now, ELASTIC_RECENT_NS);
}

unsigned elastic_groups_all(const struct device *device)
{
	return device->facts.n_sm_groups > 0 ? device->facts.n_sm_groups + 1 : 0;
}

static struct share_bounds bounds_of(const struct device *device)
{
	unsigned n_groups = device->facts.n_sm_groups;

	return (struct share_bounds){
		.n_groups = n_groups,
		.floor_groups = MAX((n_groups * floor_percent + 99) / 100, 1u),
		.target = target_percent * 10,
	};
}

unsigned elastic_sizes(const struct device *device, unsigned sizes[SHARE_SIZES_MAX])
{
	const struct share_bounds bounds = bounds_of(device);

	return bounds.n_groups > 0 ? share_sizes(&bounds, sizes) : 0;
}

/* Locks the GPU's controller, which is ready then. */
static struct elastic *elastic_lock(const struct device *device)
{
	struct elastic *gpu = &gpus[device->ordinal];

	lock_take(&gpu->lock);
	if (!gpu->is_ready) {
		const struct share_bounds bounds = bounds_of(device);

		share_controller_init(&gpu->controller, &bounds);
		gpu->is_ready = true;
	}
	return gpu;
}

static unsigned next_groups(const struct elastic *gpu)
{
	static atomic_uint n;

	return gpu->controller.sizes[atomic_fetch_add(&n, 1) % gpu->controller.n_sizes];
}

unsigned elastic_groups(const struct device *device, uint64_t now)
{
	struct elastic *gpu;
	unsigned groups;

	if (elastic_groups_all(device) == 0)
		return 0;
	gpu = elastic_lock(device);
	groups = is_test ? next_groups(gpu) : share_controller_groups(&gpu->controller, now);
	lock_release(&gpu->lock);
	return groups;
}

unsigned elastic_sms_of(const struct device *device, unsigned groups)
{
	if (groups < elastic_groups_all(device))
		return groups * device->facts.sm_group;
	return (unsigned)device->facts.attribute[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
}

unsigned elastic_sms(const struct device *device, uint64_t now)
{
	unsigned groups = elastic_groups_all(device);
	struct elastic *gpu;

	if (groups == 0)
		return 0;
	if (!was_at_work(device, now, ELASTIC_SEEN_NS))
		return elastic_sms_of(device, groups);
	gpu = elastic_lock(device);
	groups = gpu->controller.sizes[gpu->controller.good];
	lock_release(&gpu->lock);
	return elastic_sms_of(device, groups);
}

unsigned elastic_slowdown(const struct device *device, uint32_t session, uint64_t now)
{
	struct elastic *gpu;
	unsigned slowdown;

	if (elastic_groups_all(device) == 0)
		return 0;
	gpu = elastic_lock(device);
	slowdown = share_controller_slowdown(&gpu->controller, session, now);
	lock_release(&gpu->lock);
	return slowdown;
}

void elastic_note(const struct device *device, uint32_t session, uint64_t work, uint64_t ns,
	unsigned groups, uint64_t now)
{
	struct elastic *gpu;

	if (elastic_groups_all(device) == 0)
		return;
	gpu = elastic_lock(device);
	share_controller_note(&gpu->controller, session, work, ns, groups, now);
	lock_release(&gpu->lock);
}
