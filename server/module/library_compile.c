/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Libraries loaded with options, and modules. A worker.
 *
 * Invariant: an image that the driver refuses leaves nothing except its logs.
 */

#include "library.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/share/session_device.h"

/* A name that no code contains. The driver refuses broken code before it looks for the name. */
#define NO_KERNEL "\x01"

/* A module's code is compiled when it is loaded; a library's perhaps later. */
static CUresult try_code(struct session *session, struct library *library)
{
	CUkernel kernel;
	CUresult result =
		session->current ? session_device_enter(session, session->current) : CUDA_SUCCESS;

	if (result == CUDA_SUCCESS)
		result = cuda.cuLibraryGetKernel(&kernel, library->deferred.library, NO_KERNEL);
	return result == CUDA_ERROR_NOT_FOUND ? CUDA_SUCCESS : result;
}

CUresult do_library_compile(struct session *session, const struct msg_library_compile *msg,
	const struct jit_option *options, uint32_t *ret_refusal, uint32_t values[16],
	uint32_t *ret_error_filled, uint32_t *ret_info_filled, uint32_t *ret_error_length,
	uint8_t *logs, _unused_ uint32_t n_logs_max, uint32_t *ret_n_logs)
{
	struct library *library;
	bool is_loaded = false;
	CUresult result = library_new(session, msg->library, msg->size,
		MAX(msg->error_size, LIBRARY_LOG_SIZE), msg->info_size, &library);

	if (result != CUDA_SUCCESS)
		return result;
	if (!jit_put(&library->jit, options, msg->n_options)) {
		library_drop(session, library);
		return CUDA_ERROR_INVALID_VALUE;
	}
	result = library_load(library);
	is_loaded = result == CUDA_SUCCESS;
	if (is_loaded && msg->is_module)
		result = try_code(session, library);
	jit_values(&library->jit, msg->n_options, values);
	*ret_refusal = result;
	jit_logs(&library->jit, ret_error_filled, ret_info_filled, ret_error_length, logs,
		ret_n_logs);
	if (result == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	library_log_refusal(session, library, result);
	if (is_loaded)
		library_end(session, library);
	else
		library_drop(session, library);
	return result_is_fault(result) ? result : CUDA_SUCCESS;
}
