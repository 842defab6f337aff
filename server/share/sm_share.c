/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Shares of SMs. Workers.
 *
 * Invariant: each share on a GPU's list is counted in its loads; a set of a group of clients
 * is counted once for all of them. No thread waits for the driver under the lock.
 */

#include "sm_share.h"

#include "green.h"
#include "limit_text.h"
#include "lock.h"
#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/driver/sm_loads.h"
#include "server/device/device.h"

/* Before CUDA 12.5 the driver makes no streams in green contexts. */
#define DRIVER_VERSION_GREEN 12050

/* After this many contexts with their own share, a client's further ones are not logged. */
#define PARTS_LOGGED 32

struct division {
	unsigned count; /* of SMs that the driver was asked for in each group */
	struct sm_loads loads;
	struct sm_share *shares;
	unsigned n_rest;                   /* SMs that are in no group; 0: none */
	CUdevResource parts[SM_LOADS_MAX]; /* the groups; then these SMs, if any */
};

static struct lock lock = LOCK_INIT(SM_SHARES);
static struct division divisions[DEVICES_MAX]; /* by the GPU's ordinal */
static atomic_bool is_lack_logged;

/* The smallest groups; larger ones if the GPU has more than fit. */
static CUresult sm_share_split(
	struct division *division, const CUdevResource *whole, unsigned *ret_n)
{
	CUdevResource rest = {0};
	unsigned count = 1, n = 0;
	CUresult result;

	result = cuda.cuDevSmResourceSplitByCount(NULL, &n, whole, NULL, 0, count);
	while (result == CUDA_SUCCESS && n > SM_LOADS_MAX) {
		count *= 2;
		result = cuda.cuDevSmResourceSplitByCount(NULL, &n, whole, NULL, 0, count);
	}
	if (result == CUDA_SUCCESS && n > 0)
		result = cuda.cuDevSmResourceSplitByCount(
			division->parts, &n, whole, &rest, 0, count);
	division->count = count;
	division->n_rest = 0;
	if (result == CUDA_SUCCESS && n > 0 && n < SM_LOADS_MAX) {
		division->n_rest = rest.type == CU_DEV_RESOURCE_TYPE_SM ? rest.sm.smCount : 0;
		division->parts[n] = rest;
	}
	*ret_n = n;
	return result;
}

/* If the driver cannot divide the SMs, every client has all of them. */
static CUresult sm_shares_divide(struct device *device)
{
	struct division *division = &divisions[device->ordinal];
	CUdevResource whole;
	unsigned n = 0;
	int version = 0;
	CUresult result;

	division->loads = (struct sm_loads){0};
	division->shares = NULL;
	device->facts.n_sm_groups = device->facts.sm_group = 0;
	result = cuda.cuDriverGetVersion(&version);
	if (result != CUDA_SUCCESS || version < DRIVER_VERSION_GREEN)
		return result;
	result = cuda.cuDeviceGetDevResource(device->handle, &whole, CU_DEV_RESOURCE_TYPE_SM);
	if (result == CUDA_SUCCESS)
		result = sm_share_split(division, &whole, &n);
	if (result != CUDA_SUCCESS || n == 0)
		return result;
	division->loads.n = n;
	device->facts.n_sm_groups = n;
	device->facts.sm_group = division->parts[0].sm.smCount;
	return CUDA_SUCCESS;
}

const struct device_part sm_share_part = {.begin = sm_shares_divide};

static unsigned groups_of(const struct device *device, uint32_t active_threads)
{
	const struct device_facts *facts = &device->facts;

	return share_groups(active_threads,
		(uint32_t)facts->attribute[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT],
		facts->sm_group, facts->n_sm_groups);
}

/* Another share of the same group of clients, with as many SMs for the whole group. */
static const struct sm_share *find_group(
	const struct division *division, const struct group *group, unsigned n)
{
	const struct sm_share *share = division->shares;

	while (share && (share->group != group || !share->group_set ||
				(unsigned)__builtin_popcountll(share->group_set) != n))
		share = share->next;
	return share;
}

/* The SMs that the session shares with its group of clients: as many as the operator allows. */
static uint64_t sm_share_take_group(
	struct division *division, const struct group *group, unsigned n)
{
	const struct sm_share *other = find_group(division, group, n);
	uint64_t set;

	if (other)
		return other->group_set;
	set = sm_loads_choose(&division->loads, sm_set_first(division->loads.n), n);
	sm_loads_add(&division->loads, set);
	return set;
}

/* A reference to the green context of a share of the same SMs. */
static struct green *find_green(const struct division *division, uint64_t set)
{
	const struct sm_share *share = division->shares;

	while (share && (share->set != set || !share->green))
		share = share->next;
	return share ? green_ref(share->green) : NULL;
}

/* Under the lock. The SMs are chosen already. */
static void link_share(struct division *division, struct sm_share *share)
{
	share->green = find_green(division, share->set);
	LIST_PUSH(division->shares, share);
}

/* Under the lock: chooses `n' groups among the `n_group' of the session's group of clients. */
static void sm_share_choose(
	struct division *division, struct sm_share *share, unsigned n, unsigned n_group)
{
	uint64_t within = sm_set_first(division->loads.n);

	if (n_group > 0)
		within = share->group_set = sm_share_take_group(division, share->group, n_group);
	share->set = n_group == n ? within : sm_loads_choose(&division->loads, within, n);
	if (share->set != share->group_set)
		sm_loads_add(&division->loads, share->set);
	link_share(division, share);
}

static CUresult make_green(struct session *session, struct device *device,
	const struct division *division, const struct sm_share *share, struct green **ret_green)
{
	struct green_key key = {
		.device = device,
		.count = division->count,
		.n_groups = division->loads.n,
		.parts = {share->set},
	};
	CUdevResource parts[SM_LOADS_MAX];

	for (unsigned i = 0; i < SM_LOADS_MAX; i++)
		if (share->set >> i & 1)
			parts[key.n_parts++] = division->parts[i];
	return green_take(session, &key, parts, !share->is_elastic, ret_green);
}

/*
 * Without the lock, because the driver waits for all that is on the GPU. An error gives the share
 * back.
 */
static CUresult sm_share_fill(struct session *session, struct device *device,
	const struct division *division, struct sm_share *share)
{
	struct green *green = NULL;
	CUresult result = CUDA_SUCCESS;

	if (!share->green) {
		result = make_green(session, device, division, share, &green);
		lock_take(&lock);
		share->green = green;
		lock_release(&lock);
	}
	if (result == CUDA_SUCCESS)
		result = cuda.cuCtxFromGreenCtx(&share->context, share->green->real);
	if (result != CUDA_SUCCESS)
		sm_share_give(device, share, result_is_fault(result));
	return result;
}

static void log_no_shares(const struct device *device)
{
	if (!atomic_exchange(&is_lack_logged, true))
		log_line("Device %u (%s): the driver cannot divide its SMs: Active Threads "
			 "Percentages below 100 have no effect. CUDA 12.5 or later can",
			device->ordinal, device->facts.name);
}

static void log_share(
	const struct session *session, const struct device *device, const struct sm_share *share)
{
	uint32_t active_threads = MIN(session->limits.active_threads, session->active_threads);

	log_line("Client " SESSION_NAME ": Active Threads Percentage set to %u.%u on device %u: "
		 "%u of %d SMs",
		SESSION_NAME_ARGS(session), active_threads / 1000, active_threads % 1000 / 100,
		device->ordinal, share->n_sms,
		device->facts.attribute[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT]);
}

/* A partition may also have the SMs that are in no group. */
static uint64_t rest_of(const struct division *division)
{
	return division->n_rest > 0 ? UINT64_C(1) << division->loads.n : 0;
}

/* The groups of the partition on the GPU; 0: the session has none there. */
static uint64_t partition_of(const struct session *session, const struct device *device)
{
	const struct division *division = &divisions[device->ordinal];
	uint64_t set = session->limits.partition[device->ordinal];

	return set & ~(sm_set_first(division->loads.n) | rest_of(division)) ? 0 : set;
}

bool sm_share_is_partitioned(const struct session *session, const struct device *device)
{
	return session->limits.partitioned >> device->ordinal & 1;
}

uint32_t sm_share_of_partition(const struct session *session, const struct device *device)
{
	const struct division *division = &divisions[device->ordinal];
	uint64_t set = partition_of(session, device), rest = set & rest_of(division);

	return (unsigned)__builtin_popcountll(set & ~rest) * device->facts.sm_group +
	       (rest ? division->n_rest : 0);
}

/* Percentages have no effect where GPUs are partitioned. */
static CUresult take_partition(
	struct session *session, struct device *device, struct sm_share *share)
{
	struct division *division = &divisions[device->ordinal];
	CUresult result;

	share->set = partition_of(session, device);
	if (!share->set) {
		log_line("Client " SESSION_NAME " has no partition of the SMs of device %u: "
			 "its namespace must have one, or CUDA_MPS_SM_PARTITION name one "
			 "(mps-control sm-partition list, or lspart)",
			SESSION_NAME_ARGS(session), device->ordinal);
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	}
	share->n_sms = sm_share_of_partition(session, device);
	lock_take(&lock);
	sm_loads_add(&division->loads, share->set);
	link_share(division, share);
	lock_release(&lock);
	result = sm_share_fill(session, device, division, share);
	if (result == CUDA_SUCCESS)
		log_line("Client " SESSION_NAME ": its SM partition on device %u has %u of %d SMs",
			SESSION_NAME_ARGS(session), device->ordinal, share->n_sms,
			device->facts.attribute[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT]);
	return result;
}

CUresult sm_share_take(struct session *session, struct device *device, struct sm_share *share)
{
	struct division *division = &divisions[device->ordinal];
	uint32_t active_threads = MIN(session->limits.active_threads, session->active_threads);
	CUresult result;

	share->n_sms = (uint32_t)device->facts.attribute[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
	share->context = device->context;
	if (sm_share_is_partitioned(session, device))
		return take_partition(session, device, share);
	if (active_threads == ACTIVE_THREADS_ALL)
		return CUDA_SUCCESS;
	if (division->loads.n == 0) {
		log_no_shares(device);
		return CUDA_SUCCESS;
	}
	share->group = session->group;
	lock_take(&lock);
	sm_share_choose(division, share, groups_of(device, active_threads),
		share->group ? groups_of(device, session->group_threads) : 0);
	lock_release(&lock);
	share->n_sms = (unsigned)__builtin_popcountll(share->set) * device->facts.sm_group;
	result = sm_share_fill(session, device, division, share);
	if (result == CUDA_SUCCESS)
		log_share(session, device, share);
	return result;
}

/* A client may make contexts again and again, so only the first are logged. */
static void log_part(
	struct session *session, const struct device *device, const struct sm_share *share)
{
	if (session->n_parts++ >= PARTS_LOGGED)
		return;
	log_line("Client " SESSION_NAME ": a context has %u of %d SMs on device %u%s",
		SESSION_NAME_ARGS(session), share->n_sms,
		device->facts.attribute[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT], device->ordinal,
		session->n_parts == PARTS_LOGGED ? "; its further contexts are not logged" : "");
}

CUresult sm_share_take_part(struct session *session, struct device *device,
	const struct sm_share *of, uint32_t n_groups, struct sm_share *share)
{
	struct division *division = &divisions[device->ordinal];
	uint64_t within = of->set ? of->set : sm_set_first(division->loads.n);
	unsigned n = MIN(MAX(n_groups, 1u), (unsigned)__builtin_popcountll(within));
	CUresult result;

	if (sm_share_is_partitioned(session, device) || division->loads.n == 0)
		return CUDA_ERROR_NOT_SUPPORTED;
	lock_take(&lock);
	share->set = sm_loads_choose(&division->loads, within, n);
	sm_loads_add(&division->loads, share->set);
	link_share(division, share);
	lock_release(&lock);
	share->n_sms = n * device->facts.sm_group;
	result = sm_share_fill(session, device, division, share);
	if (result == CUDA_SUCCESS)
		log_part(session, device, share);
	return result;
}

CUresult sm_share_take_elastic(struct session *session, struct device *device,
	const struct sm_share *of, uint32_t n_groups, struct sm_share *share)
{
	struct division *division = &divisions[device->ordinal];
	uint64_t set = of->set ? of->set : sm_set_first(division->loads.n);

	while ((unsigned)__builtin_popcountll(set) > n_groups)
		set &= ~(UINT64_C(1) << (63 - __builtin_clzll(set)));
	share->is_elastic = true;
	share->set = set;
	share->n_sms = (unsigned)__builtin_popcountll(set) * device->facts.sm_group;
	lock_take(&lock);
	sm_loads_add(&division->loads, share->set);
	link_share(division, share);
	lock_release(&lock);
	return sm_share_fill(session, device, division, share);
}

/* Under the lock. */
static void unlink_share(struct division *division, const struct sm_share *share)
{
	LIST_DROP(division->shares, share);
	if (share->set != share->group_set)
		sm_loads_remove(&division->loads, share->set);
	if (share->group_set && !find_group(division, share->group,
					(unsigned)__builtin_popcountll(share->group_set)))
		sm_loads_remove(&division->loads, share->group_set);
}

void sm_share_give(const struct device *device, struct sm_share *share, bool device_lost)
{
	if (!share->set)
		return;
	lock_take(&lock);
	unlink_share(&divisions[device->ordinal], share);
	green_unref(share->green, device_lost);
	lock_release(&lock);
	*share = (struct sm_share){0};
}
