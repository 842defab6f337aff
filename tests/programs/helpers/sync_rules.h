/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYNC_RULES_H
#define SYNC_RULES_H

/*
 * The behaviour of each call of sync_matrix.c while its stream is blocked: according to CUDA's
 * documentation (driver API, "API synchronization behavior"), and, where that leaves it open,
 * in the service and on the software GPU.
 */

#include "sync_calls.h"

enum answer {
	OPEN,     /* either of the following */
	COMPLETE, /* complete when it returns, in or out of the stream's order */
	WAITS,    /* complete when it returns, in the stream's order */
	RETURNS,  /* it does not wait */
	ANSWERS,
};

struct rule_of_call {
	enum answer said;   /* according to the documentation */
	enum answer strict; /* in the service and on the software GPU */
};

static bool is_host(const struct memory *memory)
{
	return HOSTS >> memory->kind & 1;
}

static bool is_managed(const struct memory *memory)
{
	return memory->kind == MANAGED;
}

/* Registered memory that the GPU cannot reach is copied like pageable memory. */
static bool is_pageable(const struct memory *memory)
{
	return memory->kind == PAGEABLE || (memory->kind == REGISTERED && !memory->device);
}

/* Host memory that the call names as the device's. */
static bool is_disguised(
	const struct sync_call *call, const struct memory *dst, const struct memory *src)
{
	return (is_host(dst) && call->dst_named >> dst->kind & 1) ||
	       (is_host(src) && call->src_named >> src->kind & 1);
}

/* Managed memory that the call names by a host pointer. */
static bool is_managed_as_host(
	const struct sync_call *call, const struct memory *dst, const struct memory *src)
{
	return call->names_host &&
	       ((is_managed(dst) && !(call->dst_named >> dst->kind & 1)) ||
		       (is_managed(src) && !(call->src_named >> src->kind & 1)));
}

static bool is_peer(const struct memory *memory)
{
	return memory->kind == PEER;
}

/* The other direction. */
static bool is_misnamed(
	const struct sync_call *call, const struct memory *dst, const struct memory *src)
{
	return call->names_host && !is_host(dst) && !is_host(src);
}

/* Set with cuCtxSetFlags(): CU_CTX_SYNC_MEMOPS. */
static bool is_context_synced;

static bool is_synced(const struct memory *memory)
{
	return is_context_synced || memory->kind == SYNCED;
}

static struct rule_of_call rule_of_set(const struct sync_call *call, const struct memory *dst)
{
	if (!call->is_sync)
		return (struct rule_of_call){RETURNS, RETURNS};
	if (is_host(dst))
		return (struct rule_of_call){WAITS, WAITS};
	/* According to the documentation of CUDA 12 and before, it waits; that of 13 does not
	 * mention it. */
	if (is_managed(dst) || is_synced(dst))
		return (struct rule_of_call){OPEN, WAITS};
	return (struct rule_of_call){is_peer(dst) ? OPEN : RETURNS, RETURNS};
}

static struct rule_of_call rule_of_sync_copy(
	const struct sync_call *call, const struct memory *dst, const struct memory *src)
{
	/* Between two GPUs, a client waits for both (docs/compat/copies.md). */
	if (!is_host(dst) && !is_host(src) && dst->context != src->context)
		return (struct rule_of_call){OPEN, OPEN};
	if (is_managed(dst) || is_managed(src) || is_disguised(call, dst, src))
		return (struct rule_of_call){OPEN, WAITS};
	if (is_synced(dst) || is_synced(src))
		return (struct rule_of_call){OPEN, WAITS};
	if (is_host(dst) && is_host(src))
		return (struct rule_of_call){COMPLETE, WAITS};
	if (is_host(dst) || is_host(src))
		return (struct rule_of_call){WAITS, WAITS};
	return (struct rule_of_call){is_misnamed(call, dst, src) ? OPEN : RETURNS, RETURNS};
}

static struct rule_of_call rule_of_async_copy(
	const struct sync_call *call, const struct memory *dst, const struct memory *src)
{
	if (is_host(dst) && is_host(src))
		return (struct rule_of_call){COMPLETE, WAITS};
	/* Driver 580 does, and if the source is managed memory, not always in order. */
	if (is_managed_as_host(call, dst, src) || is_pageable(dst))
		return (struct rule_of_call){OPEN, WAITS};
	if (is_pageable(src))
		return (struct rule_of_call){OPEN, OPEN};
	if (is_managed(dst) || is_managed(src) || is_peer(dst) || is_peer(src) ||
		is_disguised(call, dst, src))
		return (struct rule_of_call){OPEN, RETURNS};
	return (struct rule_of_call){is_misnamed(call, dst, src) ? OPEN : RETURNS, RETURNS};
}

/* For a batch of lines within the host, driver 580 returns before the copies are complete. */
static struct rule_of_call rule_of_batch(
	const struct sync_call *call, const struct memory *dst, const struct memory *src)
{
	struct rule_of_call rule = rule_of_async_copy(call, dst, src);

	if (is_host(dst) && is_host(src))
		rule.said = OPEN;
	return rule;
}

static struct rule_of_call rule_of(
	const struct sync_call *call, const struct memory *dst, const struct memory *src)
{
	switch (call->rule) {
	case RULE_SET:
		return rule_of_set(call, dst);
	case RULE_SET_ALWAYS:
		return (struct rule_of_call){OPEN, WAITS};
	case RULE_COPY:
		return call->is_sync ? rule_of_sync_copy(call, dst, src)
				     : rule_of_async_copy(call, dst, src);
	case RULE_BATCH:
		return rule_of_batch(call, dst, src);
	case RULE_HINT:
		return (struct rule_of_call){RETURNS, RETURNS};
	case RULE_ADVICE:
		return (struct rule_of_call){OPEN, RETURNS};
	default:
		return (struct rule_of_call){OPEN, OPEN};
	}
}

#endif
