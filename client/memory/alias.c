/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Requests aliases from the server. Any thread of the application.
 *
 * Invariant: an alias is in the map of this process's memory as long as the server
 * has it. This process made its pages resident, so that they are charged to it.
 */

#include <pthread.h>

#include "alias.h"
#include "client.h"
#include "frame.h"
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
	pthread_mutex_lock(&server.sending);
	result = reconnect_send_frame(&server, &frame, mapping->fd);
	if (result == CUDA_SUCCESS)
		result = send_host_alias(range->context->device->index, mapping->filesystem,
			mapping->inode, mapping->offset, range->size, ret_address);
	pthread_mutex_unlock(&server.sending);
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

/* 0, with an address of 0 if the server refused; or -errno if the request could not be made. */
static int alias_request(const struct memory_range *range, uint64_t *ret_address)
{
	_cleanup_(mapping_close) struct mapping mapping;
	int r = mapping_open(range->address, range->size, &mapping);

	if (r == 0)
		r = mapping_populate(range->address, range->size);
	if (r == 0 && send_alias(range, &mapping, ret_address) != CUDA_SUCCESS)
		*ret_address = 0;
	return r;
}

void alias_new(struct memory_range *range)
{
	struct memory_range alias = *range;
	int r;

	alias.kind = MEMORY_ALIAS;
	alias.other = range->address;
	alias.address = 0;
	r = alias_request(range, &alias.address);
	if (alias.address == 0) {
		log_info("the GPU cannot access memory registered at %#llx, which is copied "
			 "instead: %s",
			(unsigned long long)range->address,
			r < 0 ? why_not(r) : "the server did not pin it");
		return;
	}
	if (memory_add(&alias) != CUDA_SUCCESS) {
		(void)send_host_alias_end(alias.address);
		return;
	}
	range->other = alias.address;
	range->id = alias.id;
}

CUresult alias_end(uint64_t address)
{
	struct memory_range range;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (memory_remove(address, MEMORY_KIND(MEMORY_ALIAS), &range))
		result = send_host_alias_end(address);
	return result == CUDA_SUCCESS ? server_link_late_error(&server) : result;
}
