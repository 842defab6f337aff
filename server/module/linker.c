/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Linkers of a session: the driver's linker, which gets the client's inputs one by one. A
 * worker. The driver compiles in it, which delays no other client (measured).
 *
 * Invariant: the driver's result belongs to the driver until the linker ends. The client
 * reads it piece by piece, within the size that the driver gave.
 */

#include <string.h>

#include "jit.h"
#include "machine_code.h"
#include "messages.h"
#include "server/util/image.h"
#include "server/session/fault.h"
#include "server/session/recv_fd.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/share/session_device.h"
#include "do_module.h"

/* The most that a session may have: each needs a compiler's memory. */
#define LINKERS_MAX 256

struct linker {
	uint32_t id;
	uint32_t device;
	uint32_t n_options; /* options of the client */
	CUlinkState real;
	const uint8_t *made; /* owned by the driver; NULL: not made yet */
	size_t made_size;
	uint64_t kept;  /* charged for its inputs and its result */
	struct jit jit; /* the driver keeps its address */
	char log_bytes[];
};

/* Puts a linker into the session's table; the driver does not know it yet. */
static CUresult linker_new(struct session *session, uint32_t id, uint32_t error_size,
	uint32_t info_size, struct linker **ret_linker)
{
	struct linker *linker;
	CUresult result;

	if (session->linkers.n_used >= LINKERS_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = session_object_new(&session->linkers, id,
		sizeof(*linker) + jit_bytes(error_size, info_size), KEPT_LINKER, &linker);
	if (result != CUDA_SUCCESS)
		return result;
	linker->id = id;
	jit_init(&linker->jit, linker->log_bytes, error_size, info_size);
	*ret_linker = linker;
	return CUDA_SUCCESS;
}

CUresult do_linker_create(struct session *session, uint32_t id, uint32_t device,
	uint32_t error_size, uint32_t info_size, const struct jit_option *options,
	uint32_t n_options)
{
	struct linker *linker;
	struct session_device *sdev;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result == CUDA_SUCCESS)
		result = linker_new(session, id, error_size, info_size, &linker);
	if (result != CUDA_SUCCESS)
		return result;
	linker->device = device;
	linker->n_options = n_options;
	result = jit_put(&linker->jit, options, n_options)
			 ? cuda.cuLinkCreate_v2(linker->jit.n, linker->jit.options,
				   linker->jit.values, &linker->real)
			 : CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		account_free(handle_remove(&session->linkers, id));
	return result;
}

static CUresult add_image(struct session *session, struct linker *linker, const struct image *image,
	uint64_t size, uint32_t type, const struct jit_option *options, uint32_t n_options,
	const char *name)
{
	uint64_t kept = KEPT_INPUT(size) + KEPT_CODE(machine_code_unpacked(image));
	struct jit jit = {0};
	struct session_device *sdev;
	CUresult result = session_device_get_entered(session, linker->device, &sdev);

	if (result != CUDA_SUCCESS)
		return result;
	if (!jit_put(&jit, options, n_options))
		return CUDA_ERROR_INVALID_VALUE;
	if (!account_keep(linker, kept))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = cuda.cuLinkAddData_v2(linker->real, (CUjitInputType)type,
		(void *)(uintptr_t)image->data, size, name, jit.n, jit.options, jit.values);
	if (result == CUDA_SUCCESS)
		linker->kept += kept;
	else
		account_unkeep(linker, kept);
	return result;
}

/* The driver has its own copy afterwards and does not read the image again. */
CUresult do_linker_add(struct session *session, struct linker *linker,
	const struct msg_linker_add *msg, const struct jit_option *options, const char *name,
	uint32_t *ret_refusal, uint32_t *ret_error_filled, uint32_t *ret_info_filled,
	uint32_t *ret_error_length, uint8_t *logs, _unused_ uint32_t n_logs_max,
	uint32_t *ret_n_logs)
{
	struct image *image = NULL;
	CUresult result = receive_image(session, msg->size + 1, &image);

	if (result == CUDA_SUCCESS)
		result = add_image(session, linker, image, msg->size, msg->type, options,
			msg->n_options, name);
	(void)receive_end(session, result);
	if (!image)
		return result;
	image_unref(image);
	*ret_refusal = result;
	jit_logs(&linker->jit, ret_error_filled, ret_info_filled, ret_error_length, logs,
		ret_n_logs);
	return fault_explains(result) ? result : CUDA_SUCCESS;
}

CUresult do_linker_complete(struct session *session, struct linker *linker, uint32_t *ret_refusal,
	uint64_t *ret_size, uint32_t values[16], uint32_t *ret_error_filled,
	uint32_t *ret_info_filled, uint32_t *ret_error_length, uint8_t *logs,
	_unused_ uint32_t n_logs_max, uint32_t *ret_n_logs)
{
	struct session_device *sdev;
	void *made = NULL;
	size_t size = 0;
	CUresult result = session_device_get_entered(session, linker->device, &sdev);

	if (result != CUDA_SUCCESS)
		return result;
	result = cuda.cuLinkComplete(linker->real, &made, &size);
	/* A result as large as the inputs is paid for already. */
	if (result == CUDA_SUCCESS && size > linker->kept &&
		!account_keep(linker, size - linker->kept))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS) {
		linker->made = made;
		linker->made_size = size;
	}
	*ret_refusal = result;
	*ret_size = linker->made_size;
	jit_values(&linker->jit, linker->n_options, values);
	jit_logs(&linker->jit, ret_error_filled, ret_info_filled, ret_error_length, logs,
		ret_n_logs);
	return fault_explains(result) ? result : CUDA_SUCCESS;
}

CUresult do_linker_read(_unused_ struct session *session, struct linker *linker, uint64_t offset,
	uint8_t *bytes, uint32_t n_bytes_max, uint32_t *ret_n_bytes)
{
	uint64_t left = offset < linker->made_size ? linker->made_size - offset : 0;

	*ret_n_bytes = (uint32_t)MIN(left, (uint64_t)n_bytes_max);
	if (*ret_n_bytes > 0)
		memcpy(bytes, linker->made + offset, *ret_n_bytes);
	return CUDA_SUCCESS;
}

CUresult do_linker_destroy(struct session *session, struct linker *linker)
{
	CUresult result = cuda.cuLinkDestroy(linker->real);

	account_free(handle_remove(&session->linkers, linker->id));
	return result;
}

static void linkers_free(struct session *session, bool device_lost)
{
	struct linker *linker;
	uint32_t at = 0;

	while ((linker = handle_take(&session->linkers, &at))) {
		if (!device_lost)
			(void)cuda.cuLinkDestroy(linker->real);
		account_free(linker);
	}
}

static const char *linkers_obstacle(struct session *session)
{
	return session->linkers.n_used > 0 ? "it links code" : NULL;
}

const struct session_part linkers_part = {.obstacle = linkers_obstacle, .end = linkers_free};
