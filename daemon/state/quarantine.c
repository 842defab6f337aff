/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Programs that cause faults. Loop thread.
 *
 * Invariant: an expired entry has no effect.
 */

#include "quarantine.h"

#include "daemon.h"
#include "tenant.h"
#include "daemon/config/allowances.h"

static uint64_t ms_since_fault(const struct tenant *tenant, const struct faulty *faulty)
{
	return uv_now(&tenant->daemon->loop) - faulty->last_ms;
}

static bool is_fault_remembered(const struct tenant *tenant, const struct faulty *faulty)
{
	return faulty->n_faults > 0 && ms_since_fault(tenant, faulty) < PROBATION_MS;
}

/* NULL: the program has caused no fault, or none recently. */
static const struct faulty *find_faulty(const struct tenant *tenant, uint32_t program)
{
	for (size_t i = 0; i < ARRAY_SIZE(tenant->faulty); i++) {
		const struct faulty *faulty = &tenant->faulty[i];

		if (faulty->program == program && is_fault_remembered(tenant, faulty))
			return faulty;
	}
	return NULL;
}

/* The program's entry, or the oldest entry, reset for it. */
static struct faulty *get_faulty(struct tenant *tenant, uint32_t program)
{
	struct faulty *found = (struct faulty *)find_faulty(tenant, program);

	if (found)
		return found;
	found = &tenant->faulty[0];
	for (size_t i = 1; i < ARRAY_SIZE(tenant->faulty); i++)
		if (tenant->faulty[i].last_ms < found->last_ms)
			found = &tenant->faulty[i];
	*found = (struct faulty){.program = program};
	return found;
}

static void begin_probation(struct tenant *tenant)
{
	usage_count(tenant->daemon, tenant->uid, USAGE_PROBATION);
	log_control(&tenant->daemon->logs,
		"A program of user %u has caused a GPU fault: it is on probation for %u s, in "
		"which its "
		"clients have a GPU while no other program has work there. After another fault "
		"within "
		"%u s it gets a server of its own, as MPS_ISOLATE=1 gives it one at its next start",
		tenant->uid, PROBATION_MS / 1000, FAULT_MEMORY_MS / 1000);
}

static void begin_quarantine(struct tenant *tenant, struct faulty *faulty)
{
	faulty->is_quarantined = true;
	usage_count(tenant->daemon, tenant->uid, USAGE_QUARANTINE);
	log_control(&tenant->daemon->logs,
		"A program of user %u has caused %u GPU faults within %u s: it is quarantined on a "
		"server of its own until it has caused no fault for %u s",
		tenant->uid, faulty->n_faults, FAULT_MEMORY_MS / 1000, PROBATION_MS / 1000);
}

void quarantine_note_fault(struct tenant *tenant, uint32_t program)
{
	struct faulty *faulty = get_faulty(tenant, program);
	bool is_soon = ms_since_fault(tenant, faulty) < FAULT_MEMORY_MS;

	faulty->n_faults = is_soon ? faulty->n_faults + 1 : 1;
	faulty->last_ms = uv_now(&tenant->daemon->loop);
	if (faulty->is_quarantined)
		return;
	if (faulty->n_faults >= QUARANTINE_FAULTS)
		begin_quarantine(tenant, faulty);
	else
		begin_probation(tenant);
}

uint64_t quarantine_wait_ms(const struct tenant *tenant, uint32_t program)
{
	const struct faulty *faulty = find_faulty(tenant, program);
	uint64_t wait_ms, passed_ms;

	if (!faulty)
		return 0;
	wait_ms = MIN(FAULT_WAIT_MS << MIN(faulty->n_faults, 8u) >> 1, FAULT_WAIT_MAX_MS);
	passed_ms = ms_since_fault(tenant, faulty);
	return passed_ms < wait_ms ? wait_ms - passed_ms : 0;
}

uint32_t quarantine_probation_ms(const struct tenant *tenant, uint32_t program)
{
	const struct faulty *faulty = find_faulty(tenant, program);

	return faulty ? (uint32_t)(PROBATION_MS - ms_since_fault(tenant, faulty)) : 0;
}

bool quarantine_holds(const struct tenant *tenant, uint32_t program)
{
	const struct faulty *faulty = find_faulty(tenant, program);

	return faulty && faulty->is_quarantined;
}

bool quarantine_is_empty(const struct tenant *tenant)
{
	for (size_t i = 0; i < ARRAY_SIZE(tenant->faulty); i++)
		if (is_fault_remembered(tenant, &tenant->faulty[i]))
			return false;
	return true;
}
