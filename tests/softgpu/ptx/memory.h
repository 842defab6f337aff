/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_MEMORY_H
#define PTX_MEMORY_H

/*
 * How instructions find their memory: checks of alignment and range, small enough to
 * be inlined into each of them. All of them return NULL after the run got a fault.
 */

#include "translate.h"
#include "warp.h"

static inline void *ptx_at_global(
	struct ptx_warp *warp, unsigned lane _unused_, uint64_t addr, uint32_t size, bool is_write)
{
	const struct ptx_range *range = &warp->run->ranges[0];

	if (unlikely(addr & (size - 1))) {
		ptx_run_fault(warp->run, PTX_FAULT_MISALIGNED, addr, is_write);
		return NULL;
	}
	if (likely(addr - range->start < range->size &&
		    range->size - (addr - range->start) >= size))
		return (void *)(uintptr_t)addr;
	return ptx_run_find(warp->run, addr, size, is_write);
}

static inline void *ptx_at_shared(
	struct ptx_warp *warp, unsigned lane _unused_, uint64_t addr, uint32_t size, bool is_write)
{
	uint32_t at = (uint32_t)addr;

	if (unlikely(at & (size - 1))) {
		ptx_run_fault(warp->run, PTX_FAULT_MISALIGNED, addr, is_write);
		return NULL;
	}
	if (likely(range_ok(at, size, warp->run->shared_size)))
		return warp->block->shared + at;
	return ptx_cluster_at(warp, at, size, is_write);
}

static inline void *ptx_at_local(
	struct ptx_warp *warp, unsigned lane, uint64_t addr, uint32_t size, bool is_write)
{
	uint32_t at = (uint32_t)addr;

	if (unlikely(at & (size - 1))) {
		ptx_run_fault(warp->run, PTX_FAULT_MISALIGNED, addr, is_write);
		return NULL;
	}
	if (likely(range_ok(at, size, warp->local_size)))
		return ptx_warp_local(warp, lane) + at;
	ptx_run_fault(warp->run, PTX_FAULT_ADDRESS, addr, is_write);
	return NULL;
}

/* In the frame: the translator has laid it out, so it exists. */
static inline void *ptx_at_frame(struct ptx_warp *warp, unsigned lane, uint64_t addr,
	uint32_t size _unused_, bool is_write _unused_)
{
	return ptx_warp_local(warp, lane) + warp->local_base + addr;
}

static inline void *ptx_at_param(
	struct ptx_warp *warp, unsigned lane, uint64_t addr, uint32_t size, bool is_write)
{
	return ptx_warp_at(warp, lane, PTX_SPACE_PARAM, (uint32_t)addr, size, is_write);
}

static inline void *ptx_at_generic(
	struct ptx_warp *warp, unsigned lane, uint64_t addr, uint32_t size, bool is_write)
{
	if (likely(addr < PTX_WINDOW_SHARED))
		return ptx_at_global(warp, lane, addr, size, is_write);
	return ptx_warp_at(warp, lane, PTX_SPACE_GENERIC, addr, size, is_write);
}

/* How an instruction finds its memory: its space, or the frame. */
enum ptx_route {
	PTX_ROUTE_GLOBAL,
	PTX_ROUTE_SHARED,
	PTX_ROUTE_LOCAL,
	PTX_ROUTE_FRAME,
	PTX_ROUTE_PARAM,
	PTX_ROUTE_GENERIC,
	PTX_ROUTES,
};

static inline void *ptx_at(struct ptx_warp *warp, enum ptx_route route, unsigned lane,
	uint64_t addr, uint32_t size, bool is_write)
{
	switch (route) {
	case PTX_ROUTE_GLOBAL:
		return ptx_at_global(warp, lane, addr, size, is_write);
	case PTX_ROUTE_SHARED:
		return ptx_at_shared(warp, lane, addr, size, is_write);
	case PTX_ROUTE_LOCAL:
		return ptx_at_local(warp, lane, addr, size, is_write);
	case PTX_ROUTE_FRAME:
		return ptx_at_frame(warp, lane, addr, size, is_write);
	case PTX_ROUTE_PARAM:
		return ptx_at_param(warp, lane, addr, size, is_write);
	default:
		return ptx_at_generic(warp, lane, addr, size, is_write);
	}
}

/* An address operand: base row and offset. */
struct ptx_address {
	enum ptx_route route;
	int32_t base;
	int64_t offset;
};

/* Takes the space of an instruction; PTX_SPACE_GENERIC without one. */
enum ptx_space ptx_tr_take_space(struct ptx_tr *tr);

/* The address [..] of operand i, with `size' bytes in `space'. */
struct ptx_address ptx_tr_memory(
	struct ptx_tr *tr, uint32_t i, enum ptx_space space, uint32_t size);

/* Emits a fence for a memory order. */
void ptx_tr_emit_fence(struct ptx_tr *tr);
/* Whether a modifier requests a memory order; checked before it is dropped as a hint. */
bool ptx_tr_is_ordered(const struct ptx_tr *tr);

#endif
