/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Bytes of constants: kept on the host while the session rests, and passed from one server to
 * another. A worker.
 *
 * Invariant: a recalled constant has as many bytes as its notes have brought, at most its size.
 * The notes come from another process and are not trusted.
 */

#include "constants.h"

#include <string.h>

#include "library.h"
#include "record_rules.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/share/mover.h"
#include "server/share/session_device.h"

/* A note takes 32 bytes for 8. Each constant counts as that many at least. */
#define CONSTANTS_MAX ((uint64_t)1 << 20)
#define CONSTANT_MIN ((uint64_t)256)

/* In a note's index, above the GPU's number: what its value is. */
enum {
	NOTE_ADDRESS = 1 << 8,
	NOTE_SIZE = 2 << 8,
	NOTE_WORD = 3 << 8,
	NOTE_DEVICE = 0xff,
};

struct constant {
	struct constant *next;
	uint64_t address, size; /* as the client knows them */
	uint32_t device;
	uint64_t n; /* bytes that are there */
	uint8_t bytes[];
};

/* The largest variable of which a copy is kept: the constants of an image have no more. */
#define KEPT_MAX ((uint64_t)64 << 10)

/* Kernels cannot write constants: only messages of the session change them. */
static bool is_kept(const struct session *session, const struct range *range)
{
	return range->state == RANGE_KEPT &&
	       !(range->is_in_graph && range->kept_at != session->n_messages);
}

static bool is_too_large(const struct session *session)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < session->variables.n && total <= CONSTANTS_MAX; i++)
		if (session->variables.list[i].is_variable)
			total += MAX(session->variables.list[i].size, CONSTANT_MIN);
	return total > CONSTANTS_MAX;
}

const char *constants_obstacle(const struct session *session)
{
	const struct ranges *variables = &session->variables;

	if (is_too_large(session))
		return "its constants take more than 1 MiB";
	for (uint32_t i = 0; i < variables->n && fault_get() != CUDA_SUCCESS; i++)
		if (variables->list[i].is_variable && !is_kept(session, &variables->list[i]))
			return "its constants were written just before the fault";
	return NULL;
}

bool constants_is_note(const struct record_note *note)
{
	return note->index > NOTE_DEVICE;
}

static CUresult read_bytes(struct session *session, const struct range *range, uint8_t *bytes)
{
	struct session_device *sdev;
	struct mover mover;
	CUresult result = session_device_get_entered(session, range->device, &sdev);

	if (result == CUDA_SUCCESS)
		result = mover_begin(&mover, session, sdev);
	if (result != CUDA_SUCCESS)
		return result;
	(void)mover_read(&mover, range->real, bytes, range->size);
	return mover_end(&mover);
}

/* Whether `range->bytes' are those of the variable now. Without memory for them, it goes on. */
static bool keep(struct session *session, struct range *range)
{
	const bool can_do_without = session->can_do_without;

	if (is_kept(session, range))
		return true;
	session->can_do_without = true;
	if (!range->bytes)
		range->bytes =
			account_alloc(session->account, ALIGN_UP(range->size, sizeof(uint64_t)), 0);
	session->can_do_without = can_do_without;
	range->state = range->bytes && read_bytes(session, range, range->bytes) == CUDA_SUCCESS
			       ? RANGE_KEPT
			       : RANGE_NOT_KEPT;
	range->kept_at = session->n_messages;
	return range->state == RANGE_KEPT;
}

/* Whether there is something to keep. */
static bool is_due(const struct session *session, const struct range *range)
{
	return range->is_variable && range->size <= KEPT_MAX && range->state != RANGE_NOT_KEPT &&
	       !is_kept(session, range);
}

void constants_keep(struct session *session)
{
	struct ranges *variables = &session->variables;

	if (is_too_large(session))
		return;
	for (uint32_t i = 0; i < variables->n; i++)
		if (fault_get() == CUDA_SUCCESS && is_due(session, &variables->list[i]))
			(void)keep(session, &variables->list[i]);
}

bool constants_are_kept(const struct session *session)
{
	const struct ranges *variables = &session->variables;

	for (uint32_t i = 0; i < variables->n; i++)
		if (is_due(session, &variables->list[i]))
			return is_too_large(session);
	return true;
}

/* The last note is the first that is recalled. */
static void note_range(struct session *session, struct record_notes *notes, struct range *range)
{
	uint64_t n_words = (range->size + sizeof(uint64_t) - 1) / sizeof(uint64_t), word;

	if (!keep(session, range)) {
		notes->is_short = true;
		return;
	}
	while (n_words-- > 0) {
		memcpy(&word, range->bytes + n_words * sizeof(word), sizeof(word));
		record_notes_add(notes, RECORD_LIBRARY, range->id, range->device | NOTE_WORD, word);
	}
	record_notes_add(notes, RECORD_LIBRARY, range->id, range->device | NOTE_SIZE, range->size);
	record_notes_add(
		notes, RECORD_LIBRARY, range->id, range->device | NOTE_ADDRESS, range->address);
}

void constants_note(struct session *session, struct record_notes *notes)
{
	for (uint32_t i = 0; i < session->variables.n; i++)
		if (session->variables.list[i].is_variable)
			note_range(session, notes, &session->variables.list[i]);
}

/* ---- in the other server */

static bool add(struct session *session, struct library *library, uint32_t device, uint64_t size)
{
	struct constant *constant =
		size <= CONSTANTS_MAX ? account_alloc(session->account, sizeof(*constant) + size, 0)
				      : NULL;

	if (!constant)
		return false;
	constant->address = library->recalled_address;
	constant->size = size;
	constant->device = device;
	LIST_PUSH(library->constants, constant);
	return true;
}

static bool append(struct constant *constant, uint64_t word)
{
	uint64_t n = constant ? MIN(constant->size - constant->n, sizeof(word)) : 0;

	if (n > 0)
		memcpy(constant->bytes + constant->n, &word, n);
	if (constant)
		constant->n += n;
	return n > 0;
}

bool constants_recall(
	struct session *session, struct library *library, const struct record_note *note)
{
	uint32_t device = note->index & NOTE_DEVICE;

	switch (note->index & ~(uint32_t)NOTE_DEVICE) {
	case NOTE_ADDRESS:
		library->recalled_address = note->value;
		return true;
	case NOTE_SIZE:
		return add(session, library, device, note->value);
	case NOTE_WORD:
		return append(library->constants, note->value);
	default:
		return false;
	}
}

static struct constant *find_constant(
	const struct library *library, uint32_t device, uint64_t address, uint64_t size)
{
	struct constant *constant = library->constants;

	while (constant && (constant->device != device || constant->address != address ||
				   constant->size != size || constant->n != size))
		constant = constant->next;
	return constant;
}

CUresult constants_restore(struct session *session, struct library *library,
	struct session_device *sdev, uint64_t address, uint64_t size, uint64_t real)
{
	struct constant *constant = find_constant(library, sdev->device->ordinal, address, size);
	struct mover mover;
	CUresult result = constant ? mover_begin(&mover, session, sdev) : CUDA_ERROR_INVALID_VALUE;

	if (result != CUDA_SUCCESS)
		return result;
	(void)mover_write(&mover, real, constant->bytes, size);
	result = mover_end(&mover);
	LIST_DROP(library->constants, constant);
	account_free(constant);
	return result;
}

void constants_free(struct library *library)
{
	while (library->constants)
		account_free(LIST_POP(library->constants));
}
