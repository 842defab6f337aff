/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The process's share of the SMs. Any thread of the application.
 *
 * Invariant: the environment at the start of the process applies to all its GPUs
 * and contexts. It can only lower the operator's limit, which the server enforces.
 */

#include "share.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "frame.h"
#include "limit_text.h"
#include "client/util/log.h"
#include "client/transport/server_link.h"

/* Fixed by share_init(). */
static uint32_t asked = ACTIVE_THREADS_ALL;
static bool is_per_context;

/* The current value in the environment. An invalid value is logged and changes nothing. */
static void read_percentage(uint32_t *ret_thousandths)
{
	const char *text = secure_getenv(SHARE_VARIABLE);

	if (text && parse_percentage(text, ret_thousandths) < 0)
		log_warn(SHARE_VARIABLE "=%s is ignored: the value must be " PERCENTAGE_ACCEPTED,
			text);
}

void share_init(void)
{
	const char *per_context = secure_getenv(SHARE_PER_CONTEXT);

	read_percentage(&asked);
	is_per_context = per_context && !strcmp(per_context, "1");
}

uint32_t share_asked(void)
{
	return asked;
}

bool share_is_per_context(void)
{
	return is_per_context;
}

uint32_t share_groups_now(const struct device *device)
{
	const struct device_facts *facts = device_facts(device);
	uint32_t now = asked, n_groups;

	read_percentage(&now);
	n_groups = share_groups(MIN(asked, now),
		(uint32_t)facts->attribute[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT],
		facts->sm_group, facts->n_sm_groups);
	return n_groups > 0 ? n_groups : UINT32_MAX / MAX(facts->sm_group, 1u);
}

uint32_t share_sms(const struct device *device)
{
	const struct context *context = context_current;

	return context && context->device == device &&
			       atomic_load_explicit(&context->null, memory_order_acquire)
		       ? context->n_sms
		       : share_sms_of_process(device);
}

/* The same computation as in the server (server/driver/sm_share.c). */
uint32_t share_sms_of_process(const struct device *device)
{
	const struct device_facts *facts = device_facts(device);
	uint32_t allowed = shm_load32(&server.page->active_threads);
	uint32_t n_sms = (uint32_t)facts->attribute[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
	uint32_t n_groups;

	if (atomic_load_explicit(&device->is_open, memory_order_acquire))
		return device->n_sms;
	n_groups = share_groups(MIN(asked, allowed), n_sms, facts->sm_group, facts->n_sm_groups);
	return n_groups > 0 ? n_groups * facts->sm_group : n_sms;
}
