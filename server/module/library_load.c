/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the driver has of a library, and what it costs. A worker.
 *
 * Invariant: session::immovable is NULL if no library of the session has a reason, else the last
 * reason that was set.
 */

#include "library_load.h"

#include <string.h>

#include "library.h"
#include "machine_code.h"
#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/schedule/blocked_streams.h"
#include "server/schedule/quiet.h"
#include "server/memory/space.h"

/* ---- memory of its variables */

void library_charges_end(struct library *library)
{
	while (library->charges) {
		struct library_charge *charge = LIST_POP(library->charges);

		atomic_fetch_sub(&charge->memory->closing, charge->size);
		device_quota_refund(charge->memory, charge->size);
		device_quota_unref(charge->memory);
		account_free(charge);
	}
}

static CUresult library_measure(const struct library *library, uint64_t managed,
	const struct device *device, uint64_t *ret_size)
{
	const struct image *image = library->deferred.image;
	uint64_t unpacked = MAX(machine_code_unpacked(image), image->size), size;
	void *block = (void *)(uintptr_t)library;

	if (!account_keep(block, unpacked))
		return CUDA_ERROR_OUT_OF_MEMORY;
	size = machine_code_variables(image, device);
	account_unkeep(block, unpacked);
	*ret_size = size - MIN(size, managed);
	return CUDA_SUCCESS;
}

static bool is_charged(const struct library *library, const struct device_quota *memory)
{
	const struct library_charge *charge = library->charges;

	while (charge && charge->memory != memory)
		charge = charge->next;
	return charge;
}

void library_charges_close(struct library *library)
{
	for (struct library_charge *charge = library->charges; charge; charge = charge->next)
		atomic_fetch_add(&charge->memory->closing, charge->size);
}

CUresult library_charge(struct session *session, struct library *library, uint64_t managed,
	struct session_device *sdev)
{
	struct library_charge *charge;
	uint64_t size;
	CUresult result;

	if (quota_limit(&sdev->memory->quota) == UINT64_MAX || is_charged(library, sdev->memory))
		return CUDA_SUCCESS;
	result = library_measure(library, managed, sdev->device, &size);
	charge =
		result == CUDA_SUCCESS ? account_alloc(session->account, sizeof(*charge), 0) : NULL;
	if (!charge)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; !device_quota_charge(sdev->memory, size); i++) {
		if (space_make(session, sdev, size, i))
			continue;
		account_free(charge);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	charge->memory = device_quota_ref(sdev->memory);
	charge->size = size;
	LIST_PUSH(library->charges, charge);
	return CUDA_SUCCESS;
}

/* ---- the driver */

bool library_is_loaded(const struct library *library, const struct device *device)
{
	return library->loaded_on >> device->ordinal & 1;
}

bool library_load_begin(
	struct session *session, const struct library *library, struct device *device)
{
	return library_is_loaded(library, device) ? exclusive_call_begin(session, 0)
						  : quiet_call_begin(session, device, 0);
}

void library_load_end(struct library *library, struct device *device, CUresult result)
{
	if (library_is_loaded(library, device)) {
		exclusive_call_end();
		return;
	}
	quiet_call_end(device);
	if (result == CUDA_SUCCESS)
		library->loaded_on |= UINT64_C(1) << device->ordinal;
}

/* Logs the compiler's messages, one per line, to help find the reason. */
void library_log_refusal(struct session *session, struct library *library, CUresult result)
{
	const size_t size = library->jit.error.size;
	char *rest = library->log_bytes, *line;

	if (fault_explains(result) || session->n_refusals++ >= REFUSALS_LOGGED)
		return;
	log_line("Client " SESSION_NAME ": the driver refused an image or a kernel of it: %s (%d)",
		SESSION_NAME_ARGS(session), result_name(result), (int)result);
	while ((line = strsep(&rest, "\n")))
		if (*line)
			log_line("Client " SESSION_NAME ": %s", SESSION_NAME_ARGS(session), line);
	memset(library->log_bytes, 0, size);
}

/* ---- why the session stays */

const char *library_immovable(const struct session *session)
{
	return atomic_load_explicit(&session->immovable, memory_order_relaxed);
}

void library_reason_end(struct session *session, const struct library *library)
{
	if (library->reason && --session->n_immovable == 0)
		atomic_store_explicit(&session->immovable, NULL, memory_order_relaxed);
}

void library_set_reason(struct session *session, struct library *library, const char *reason)
{
	if (!library->is_ended) {
		library_reason_end(session, library);
		session->n_immovable += reason != NULL;
		if (reason)
			atomic_store_explicit(&session->immovable, reason, memory_order_relaxed);
	}
	library->reason = reason;
}
