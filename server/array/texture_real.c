/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Texture and surface objects by value.
 *
 * Invariant: under the lock, no object exists whose value a session expects.
 */

#include "texture_real.h"

#include <string.h>

#include "lock.h"
#include "messages.h"
#include "server/record/record_script.h"
#include "server/session/session.h"

/* How many values may be in use by others: those of all sessions. */
#define VALUES_TRIED 4096u

struct expected {
	struct expected *next;
	uint32_t session; /* its ID */
	bool is_surface;
	uint64_t value;
};

static struct lock lock = LOCK_INIT(TEXTURE_VALUES);
static struct expected *all;
static uint64_t others[VALUES_TRIED];

static CUresult make(const struct object_desc *desc, uint64_t *ret_real)
{
	return desc->sampler ? cuda.cuTexObjectCreate((CUtexObject *)ret_real, desc->resource,
				       desc->sampler, desc->view)
			     : cuda.cuSurfObjectCreate((CUsurfObject *)ret_real, desc->resource);
}

void texture_real_end(bool is_surface, uint64_t real)
{
	if (is_surface)
		cuda.cuSurfObjectDestroy(real);
	else
		cuda.cuTexObjectDestroy(real);
}

/* `session' 0: of any session. */
static struct expected *find(uint32_t session, bool is_surface, uint64_t value)
{
	struct expected *expected = all;

	while (expected && (expected->value != value || expected->is_surface != is_surface ||
				   (session != 0 && expected->session != session)))
		expected = expected->next;
	return expected;
}

static bool fits(const struct object_desc *desc, const uint64_t *wanted, uint64_t value)
{
	return wanted ? value == *wanted : !find(0, !desc->sampler, value);
}

/* Makes objects until one has the wanted value. NULL: a value that no session expects. */
static CUresult make_until(
	const struct object_desc *desc, const uint64_t *wanted, uint64_t *ret_real)
{
	uint64_t value = 0;
	uint32_t n = 0;
	CUresult result;

	while ((result = make(desc, &value)) == CUDA_SUCCESS && !fits(desc, wanted, value)) {
		others[n++] = value;
		if (n == VALUES_TRIED) {
			result = CUDA_ERROR_NOT_SUPPORTED;
			break;
		}
	}
	while (n > 0)
		texture_real_end(!desc->sampler, others[--n]);
	if (result == CUDA_SUCCESS)
		*ret_real = value;
	return result;
}

CUresult texture_real_make(const struct object_desc *desc, uint64_t *ret_real)
{
	lock_hold(&lock);

	return make_until(desc, NULL, ret_real);
}

CUresult texture_real_make_again(
	const struct session *session, const struct object_desc *desc, uint64_t value)
{
	lock_hold(&lock);
	struct expected *expected = find(session->id, !desc->sampler, value);
	CUresult result = make_until(desc, &value, &value);

	if (expected)
		LIST_DROP(all, expected);
	account_free(expected);
	return result;
}

/* Without memory for it, the value may get lost. */
static void expect(struct session *session, bool is_surface, uint64_t value)
{
	struct expected *expected = account_alloc(session->account, sizeof(*expected), 0);
	lock_hold(&lock);

	if (!expected)
		return;
	expected->session = session->id;
	expected->is_surface = is_surface;
	expected->value = value;
	LIST_PUSH(all, expected);
}

void texture_real_expect(struct session *session)
{
	struct record_step step;
	uint64_t value;

	if (!session->script)
		return;
	while (record_script_next(session->script, &step)) {
		if (step.note || step.rule->mark != RECORD_MAKE ||
			step.rule->kind != RECORD_TEXTURE ||
			record_answers_size(step.rule) != sizeof(value))
			continue;
		memcpy(&value, step.answers, sizeof(value));
		expect(session, step.head->op == OP_SURFACE_CREATE, value);
	}
	record_script_rewind(session->script);
}

void texture_real_forget(const struct session *session)
{
	struct expected **at = &all;
	lock_hold(&lock);

	while (*at) {
		struct expected *expected = *at;

		if (expected->session != session->id) {
			at = &expected->next;
			continue;
		}
		*at = expected->next;
		account_free(expected);
	}
}
