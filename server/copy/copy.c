/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies: through the staging memory, and within memory that the GPU reaches. A worker.
 *
 * Invariant: the generated code has checked that both ends of a copy lie in memory of the
 * session.
 */

#include "copy.h"

#include "staging.h"
#include "server/session/counting.h"
#include "server/session/session.h"
#include "server/driver/owner.h"
#include "server/device/device.h"
#include "server/stream/observed.h"
#include "server/stream/stream.h"
#include "server/memory/host.h"
#include "server/memory/virtual.h"
#include "do_copy.h"

struct end end_of(uint64_t address)
{
	return (struct end){address, address >= HOST_SPACE && address < HOST_SPACE_END};
}

struct end end_of_piece(const void *piece)
{
	return (struct end){(uintptr_t)piece, true};
}

/* The GPU whose arenas contain the address; NULL: none, or memory that a program maps itself. */
static const struct device *device_of(uint64_t address)
{
	const struct owner owner = owner_of(address);

	return owner.session ? device_get(owner.device) : NULL;
}

/* Whether the GPUs do not reach each other's memory, which is then mapped only for its own GPU. */
static bool is_far(const struct device *dst, const struct device *src)
{
	return dst && src && !(device_reaches(dst, src) && device_reaches(src, dst));
}

static CUresult copy_on_gpu(uint64_t dst, uint64_t src, uint64_t size, CUstream real)
{
	const struct device *to = device_of(dst), *from = device_of(src);

	return is_far(to, from)
		       ? cuda.cuMemcpyPeerAsync(dst, to->context, src, from->context, size, real)
		       : cuda.cuMemcpyDtoDAsync_v2(dst, src, size, real);
}

static CUresult copy_piece(struct end dst, struct end src, uint64_t size, CUstream real)
{
	if (!dst.is_host && !src.is_host)
		return copy_on_gpu(dst.address, src.address, size, real);
	if (dst.is_host)
		return cuda.cuMemcpyDtoHAsync_v2(
			(void *)(uintptr_t)dst.address, src.address, size, real);
	return cuda.cuMemcpyHtoDAsync_v2(
		dst.address, (const void *)(uintptr_t)src.address, size, real);
}

CUresult copy_line(struct end dst, struct end src, uint64_t size, CUstream real)
{
	CUresult result = CUDA_SUCCESS;

	if (dst.is_host && src.is_host)
		return copy_host_line(dst.address, src.address, size, real);
	while (size > 0 && result == CUDA_SUCCESS) {
		uint64_t n = host_cut(dst.address, host_cut(src.address, size));

		result = copy_piece(dst, src, n, real);
		dst.address += n;
		src.address += n;
		size -= n;
	}
	return result;
}

CUresult do_copy_in(struct session *session, struct stream *stream, uint64_t dst, uint32_t offset,
	uint32_t size)
{
	void *piece = NULL;
	CUstream real;
	CUresult result = stream_begin(session, stream, &real);

	if (result == CUDA_SUCCESS)
		result = staging_piece(session, offset, size, &piece);
	if (result != CUDA_SUCCESS)
		return result;
	counter_add_copy(session, false, true, size);
	return OBSERVED(session, stream, copy_line(end_of(dst), end_of_piece(piece), size, real),
		{.kind = TRACE_COPY_IN, .size = size});
}

CUresult do_copy_out(struct session *session, struct stream *stream, uint64_t src, uint32_t offset,
	uint32_t size)
{
	void *piece = NULL;
	CUstream real;
	CUresult result = stream_begin(session, stream, &real);

	if (result == CUDA_SUCCESS)
		result = staging_piece(session, offset, size, &piece);
	if (result != CUDA_SUCCESS)
		return result;
	counter_add_copy(session, true, false, size);
	return OBSERVED(session, stream, copy_line(end_of_piece(piece), end_of(src), size, real),
		{.kind = TRACE_COPY_OUT, .size = size});
}

static const struct device *owner_device(const struct session *session, uint64_t address)
{
	const struct device *device = device_of(address);

	return device ? device : virtual_device(session, address);
}

/* Between two GPUs, with memory that a program maps itself: either GPU may lack access to it. */
static bool is_between_mapped(const struct session *session, uint64_t dst, uint64_t src)
{
	const struct device *to = owner_device(session, dst), *from = owner_device(session, src);

	return to && from && to != from && !(device_of(dst) && device_of(src));
}

static CUresult copy_mapped(
	const struct session *session, uint64_t dst, uint64_t src, uint64_t size, CUstream real)
{
	return cuda.cuMemcpyPeerAsync(dst, owner_device(session, dst)->context, src,
		owner_device(session, src)->context, size, real);
}

static CUresult copy_any(
	const struct session *session, uint64_t dst, uint64_t src, uint64_t size, CUstream real)
{
	return is_between_mapped(session, dst, src)
		       ? copy_mapped(session, dst, src, size, real)
		       : copy_line(end_of(dst), end_of(src), size, real);
}

CUresult do_copy_device(
	struct session *session, struct stream *stream, uint64_t dst, uint64_t src, uint64_t size)
{
	CUstream real;
	CUresult result = stream_begin(session, stream, &real);

	if (result != CUDA_SUCCESS)
		return result;
	counter_add_copy(session, end_of(dst).is_host, end_of(src).is_host, size);
	return OBSERVED(session, stream, copy_any(session, dst, src, size, real),
		{.kind = trace_copy_kind(end_of(dst).is_host, end_of(src).is_host), .size = size});
}
