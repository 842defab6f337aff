/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The process's share of SMs. Any thread of the application.
 *
 * Invariant: what the environment said as the process started holds for all its
 * GPUs. It can only lower what the operator allows, which the server sees to.
 */

#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "limit_text.h"
#include "link.h"
#include "log.h"
#include "share.h"

#define PER_CONTEXT "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING"

static uint32_t asked = ACTIVE_THREADS_ALL; /* fixed by share_init() */

void share_init(void)
{
	const char *text = getenv(SHARE_VARIABLE), *per_context = getenv(PER_CONTEXT);

	if (text && parse_percentage(text, &asked) < 0)
		log_warn(SHARE_VARIABLE "=%s is ignored: it has to be " PERCENTAGE_ACCEPTED, text);
	if (per_context && !strcmp(per_context, "1"))
		log_warn(PER_CONTEXT "=1 has no effect: all contexts of the process have the same "
				     "SMs, by " SHARE_VARIABLE " as it is now");
}

uint32_t share_asked(void)
{
	return asked;
}

/* As the server reckons (server/sm_share.c). */
uint32_t share_sms(const struct device *device)
{
	const struct device_facts *facts = device_facts(device);
	uint32_t allowed = shm_load32(&server.page->active_threads);
	uint32_t n_sms = (uint32_t)facts->attribute[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
	uint32_t n_groups;

	if (__atomic_load_n(&device->is_open, __ATOMIC_ACQUIRE))
		return device->n_sms;
	n_groups = share_groups(MIN(asked, allowed), n_sms, facts->sm_group, facts->n_sm_groups);
	return n_groups > 0 ? n_groups * facts->sm_group : n_sms;
}
