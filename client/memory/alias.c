/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Requests aliases from the server. Any thread of the application.
 *
 * Invariant: an alias is in the map of this process's memory as long as the server
 * has it. This process made its pages resident, so that they are charged to it.
 */

#include "alias.h"

#include "client.h"
#include "frame.h"
#include "lock.h"
#include "client/util/log.h"
#include "client/util/mapping.h"
#include "client/transport/reconnect.h"
#include "send.h"

static CUresult send_alias(
	const struct memory_range *range, const struct mapping *mapping, uint64_t *ret_address)
{
	struct frame_memory frame = {.address = mapping->offset, .size = range->size};
	CUresult result;

	frame_init(&frame, FRAME_MEMORY, 1);
	lock_hold(&server.sending);
	result = reconnect_send_frame(&server, &frame, mapping->fd);
	if (result == CUDA_SUCCESS)
		result = send_host_alias(range->context->device->index, mapping->filesystem,
			mapping->inode, mapping->offset, range->size, ret_address);
	return result;
}

static const char *why_not(int r)
{
	switch (r) {
	case -EINVAL:
		return "it is not a writable shared mapping";
	case -ENOTSUP:
		return "the mapped file is not a file in memory";
	case -ENOENT:
		return "no descriptor or name leads to the mapped file";
	case -EACCES:
		return "the mapped file is not open for writing";
	default:
		return "its pages cannot be made resident";
	}
}

static void log_copied(const struct memory_range *range, const char *why)
{
	log_info("the GPU cannot access memory registered at %#llx, which is copied instead: %s",
		(unsigned long long)range->address, why);
}

bool alias_new_of(struct memory_range *range, const struct mapping *mapping)
{
	struct memory_range alias = *range;
	int r = mapping_populate(range->address, range->size);

	alias.kind = MEMORY_ALIAS;
	alias.other = range->address;
	if (r < 0 || send_alias(range, mapping, &alias.address) != CUDA_SUCCESS) {
		log_copied(range, r < 0 ? why_not(r) : "the server did not pin it");
		return false;
	}
	if (memory_add(&alias) != CUDA_SUCCESS) {
		(void)send_host_alias_end(alias.address);
		return false;
	}
	range->other = alias.address;
	range->id = alias.id;
	return true;
}

void alias_new(struct memory_range *range)
{
	_cleanup_(mapping_close) struct mapping mapping;
	int r = mapping_open(range->address, range->size, &mapping);

	if (r == 0)
		(void)alias_new_of(range, &mapping);
	else
		log_copied(range, why_not(r));
}

CUresult alias_end(uint64_t address)
{
	struct memory_range range;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (memory_remove(address, MEMORY_KIND(MEMORY_ALIAS), &range))
		result = send_host_alias_end(address);
	return result == CUDA_SUCCESS ? server_link_late_error(&server) : result;
}
