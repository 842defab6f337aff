/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Libraries of a session, and modules: loaded, searched, unloaded. A worker.
 *
 * Invariant: a kernel's library is loaded; both are removed from the tables together. An image
 * that the driver refuses leaves nothing except its logs.
 */

#include "library.h"

#include <string.h>

#include "constants.h"
#include "frame.h"
#include "kernel.h"
#include "library_load.h"
#include "machine_code.h"
#include "managed.h"
#include "messages.h"
#include "placement.h"
#include "server/record/record_notes.h"
#include "server/session/fault.h"
#include "server/session/recorded.h"
#include "server/session/recv_fd.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/memory/space.h"
#include "do_module.h"

/* Each may be a mapping of this process, which has at most 65 530 of them. */
#define LIBRARIES_MAX 16384

/* Size of the compiler's log for a refused image, if the client requests no larger one. */
#define LIBRARY_LOG_SIZE 1024

/* ---- from the table to the deferred calls */

static void library_done(struct deferred *deferred)
{
	struct library *library = container_of(deferred, struct library, deferred);

	library_charges_end(library);
	managed_free(library->managed);
	account_free(library);
}

/* The library has no users: the driver unloads it later. */
static void library_discard(struct library *library)
{
	placements_end(library->session, library);
	constants_free(library);
	library_charges_close(library);
	deferred_add(&library->deferred);
}

/* The driver reads the image in place. */
static CUresult library_load(struct library *library)
{
	CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
	void *option_value = (void *)1;

	return cuda.cuLibraryLoadData(&library->deferred.library,
		image_code(library->deferred.image), library->jit.options, library->jit.values,
		library->jit.n, &option, &option_value, 1);
}

/*
 * Makes a library of the image that comes on the connection, with space for two logs. It is
 * in the session's table; the driver does not know it yet.
 */
static CUresult library_new(struct session *session, uint32_t id, uint64_t size,
	uint32_t error_size, uint32_t info_size, struct library **ret_library)
{
	struct library *library;
	struct image *image = NULL;
	CUresult result = receive_image(session, size, &image);

	if (result != CUDA_SUCCESS)
		return result;
	result = session->libraries.n_used < LIBRARIES_MAX
			 ? session_object_new(&session->libraries, id,
				   sizeof(*library) + jit_bytes(error_size, info_size),
				   KEPT_LIBRARY + machine_code_kept(image), &library)
			 : CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		image_unref(image);
		return result;
	}
	library->id = id;
	record_note_image(&session->record, image);
	library->session = session;
	library->deferred.image = image;
	library->deferred.on_done = library_done;
	jit_init(&library->jit, library->log_bytes, error_size, info_size);
	*ret_library = library;
	return CUDA_SUCCESS;
}

/* Undoes library_new(); the driver does not have the library. */
static void library_drop(struct session *session, struct library *library)
{
	image_unref(library->deferred.image);
	account_free(handle_remove(&session->libraries, library->id));
}

/* Removes it from the tables. The real library stays until the GPUs are idle. */
static void library_end(struct session *session, struct library *library)
{
	each_part(session_parts, code_end, session);
	while (library->kernels) {
		struct kernel *kernel = LIST_POP(library->kernels);

		last_launch_keep(&session->last_launch, kernel->name);
		handle_remove(&session->kernels, kernel->id);
		account_free(kernel);
	}
	ranges_remove(&session->variables, library);
	library_reason_end(session, library);
	handle_remove(&session->libraries, library->id);
	session->n_freed++;
	library->is_ended = true;
	if (library->n_users == 0)
		library_discard(library);
}

CUresult do_library_load(struct session *session, uint32_t id, uint64_t size)
{
	struct library *library;
	CUresult result = library_new(session, id, size, LIBRARY_LOG_SIZE, 0, &library);

	if (result != CUDA_SUCCESS)
		return receive_end(session, result);
	result = library_load(library);
	if (result != CUDA_SUCCESS) {
		library_log_refusal(session, library, result);
		library_drop(session, library);
	}
	return receive_end(session, result);
}

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
		return receive_end(session, result);
	if (!jit_put(&library->jit, options, msg->n_options)) {
		library_drop(session, library);
		return receive_end(session, CUDA_ERROR_INVALID_VALUE);
	}
	result = library_load(library);
	is_loaded = result == CUDA_SUCCESS;
	if (is_loaded && msg->is_module)
		result = try_code(session, library);
	jit_values(&library->jit, msg->n_options, values);
	*ret_refusal = result;
	jit_logs(&library->jit, ret_error_filled, ret_info_filled, ret_error_length, logs,
		ret_n_logs);
	if (receive_end(session, result) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	record_refuse(&session->record);
	library_log_refusal(session, library, result);
	if (is_loaded)
		library_end(session, library);
	else
		library_drop(session, library);
	return fault_explains(result) ? result : CUDA_SUCCESS;
}

void library_use(struct library *library)
{
	library->n_users++;
}

void library_unuse(struct library *library)
{
	if (--library->n_users == 0 && library->is_ended)
		library_discard(library);
}

CUresult do_library_unload(struct session *session, struct library *library)
{
	library_end(session, library);
	return CUDA_SUCCESS;
}

/* Drops all libraries; they are unloaded later. */
static void libraries_free(struct session *session, _unused_ bool device_lost)
{
	struct library *library;
	uint32_t at = 0;

	while ((library = handle_take(&session->libraries, &at)))
		library_end(session, library);
	placements_flush(session);
}

/* Other variables than constants have other addresses in another server: the session stays. */
static bool may_move(const struct session *session)
{
	const char *why = library_immovable(session);

	return !why || strncmp(why, MAY_STAY_TEXT, strlen(MAY_STAY_TEXT)) == 0;
}

/* Looks, while work of the session ends, what can be given back then. */
static void libraries_poll(struct session *session)
{
	if (!session->busy)
		placements_flush(session);
}

/* Not from poll(), which is also called while a message writes a constant. */
static void libraries_keep(struct session *session)
{
	if (may_move(session))
		constants_keep(session);
}

static bool libraries_are_settled(const struct session *session)
{
	return !may_move(session) || constants_are_kept(session);
}

/*
 * A variable of __managed__ at the driver's address, which means nothing in the program's
 * process.
 */
static bool library_is_managed(CUdeviceptr address)
{
	unsigned value = 0;

	return cuda.cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) ==
		       CUDA_SUCCESS &&
	       value;
}

/* The driver returns the address of a variable that it has placed. */
static CUresult ask_driver(struct session *session, struct library *library,
	struct session_device *sdev, const struct placement *placement, const char *name,
	CUdeviceptr *ret_address, size_t *ret_size)
{
	CUlibrary real = placement ? placement->deferred.library : library->deferred.library;
	CUresult result;

	if (!library_load_begin(session, library, sdev->device))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	result = cuda.cuLibraryGetGlobal(ret_address, ret_size, real, name);
	library_load_end(library, sdev->device, result);
	return result == CUDA_SUCCESS && library_is_managed(*ret_address) ? CUDA_ERROR_NOT_SUPPORTED
									  : result;
}

/*
 * The variable that the driver has at `real': *address is what the client knows it by. In a replay,
 * the client has an address already, and the variable gets the bytes that it had.
 */
static CUresult add_variable(struct session *session, struct library *library,
	struct session_device *sdev, uint64_t real, uint64_t size, uint64_t *address)
{
	bool is_again = recorded_is_replay(session);
	uint64_t known = is_again ? 0 : ranges_address_of(&session->variables, library, real);
	struct range range = {.address = is_again ? recorded_answer(session) : real,
		.size = size,
		.real = real,
		.owner = library,
		.id = library->id,
		.device = sdev->device->ordinal,
		.is_variable = true};
	CUresult result = CUDA_SUCCESS;
	int r = 0;

	/* One address for one variable, also after a move. */
	if (known) {
		*address = known;
		return CUDA_SUCCESS;
	}
	if (is_again)
		result = constants_restore(session, library, sdev, range.address, size, real);
	if (result == CUDA_SUCCESS)
		r = ranges_add(&session->variables, &range);
	library->has_constants = true;
	/* Before a move, another one had that address, by which the client knows it. */
	if (r == -EEXIST)
		return CUDA_ERROR_NOT_SUPPORTED;
	*address = range.address;
	return r < 0 ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

static CUresult find_global(struct session *session, struct library *library,
	struct session_device *sdev, const char *name, uint64_t *ret_address, uint64_t *ret_size)
{
	const struct placement *placement;
	CUdeviceptr address = 0;
	size_t size = 0;
	CUresult result = placement_get(session, library, sdev, &placement);

	if (result != CUDA_SUCCESS)
		return result;
	if (placement && globals_find(&placement->globals, name, ret_address, ret_size) == 0) {
		*ret_address += placement->address;
		return CUDA_SUCCESS;
	}
	result = ask_driver(session, library, sdev, placement, name, &address, &size);
	*ret_size = size;
	return result == CUDA_SUCCESS
		       ? add_variable(session, library, sdev, address, size, ret_address)
		       : result;
}

/* From then on the client may use the variable. */
CUresult do_library_global(struct session *session, struct library *library, uint32_t device,
	const char *name, uint64_t *ret_address, uint64_t *ret_size)
{
	struct session_device *sdev;
	uint32_t n = session->variables.n;
	CUresult result = session_device_get_entered(session, device, &sdev);

	if (result != CUDA_SUCCESS)
		return result;
	if (managed_come_first(library, sdev->device))
		return CUDA_ERROR_NOT_SUPPORTED;
	result = library_charge(session, library, managed_size(library->managed), sdev);
	if (result != CUDA_SUCCESS)
		return result;
	do
		result = find_global(session, library, sdev, name, ret_address, ret_size);
	while (placement_refuse(session, library, sdev, result));
	library->is_used |= result == CUDA_SUCCESS;
	/* Nothing was added, so nothing has to be made again. */
	if (result == CUDA_SUCCESS && session->variables.n == n)
		record_refuse(&session->record);
	return result;
}

/* Puts the whole names from `first' on into `names', as many as fit, in the driver's order. */
static CUresult put_names(CUkernel *kernels, uint32_t n, uint32_t first, uint8_t *names,
	uint32_t n_max, uint32_t *ret_size)
{
	uint32_t size = 0;

	for (uint32_t i = first; i < n; i++) {
		const char *name = NULL;
		CUresult result = cuda.cuKernelGetName(&name, kernels[i]);
		size_t length;

		if (result != CUDA_SUCCESS)
			return result;
		length = strlen(name) + 1;
		if (length > WIRE_NAME_MAX_BYTES)
			return CUDA_ERROR_NOT_SUPPORTED;
		if (length > n_max - size)
			break;
		memcpy(names + size, name, length);
		size += (uint32_t)length;
	}
	*ret_size = size;
	return CUDA_SUCCESS;
}

CUresult do_library_names(struct session *session, struct library *library, uint32_t first,
	uint32_t *ret_count, uint8_t *names, uint32_t n_names_max, uint32_t *ret_n_names)
{
	_cleanup_account_ CUkernel *kernels = NULL;
	unsigned count = 0;
	CUresult result = CUDA_SUCCESS;

	if (session->current)
		result = session_device_enter(session, session->current);
	if (result == CUDA_SUCCESS)
		result = cuda.cuLibraryGetKernelCount(&count, library->deferred.library);
	*ret_count = count;
	*ret_n_names = 0;
	if (result != CUDA_SUCCESS || first >= count)
		return result;
	kernels = account_alloc(session->account, count * sizeof(CUkernel), 0);
	if (!kernels)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = cuda.cuLibraryEnumerateKernels(kernels, count, library->deferred.library);
	return result == CUDA_SUCCESS
		       ? put_names(kernels, count, first, names, n_names_max, ret_n_names)
		       : result;
}

/* Why the code, whose variables are not placed, keeps its session here; NULL: it does not. */
static const char *look(const struct session *session, const struct library *library)
{
	struct image *image = library->deferred.image;
	void *block = (void *)(uintptr_t)library;
	uint64_t unpacked = MAX(machine_code_unpacked(image), image->size);
	int r = 0;

	if (!account_keep(block, unpacked))
		return PLACED_BY_DRIVER;
	for (unsigned i = 0; i < DEVICES_MAX && r == 0; i++)
		if (session->devices[i])
			r = machine_code_stays(image, session->devices[i]->device);
	account_unkeep(block, unpacked);
	if (r == -EXDEV)
		return KEEPS_FUNCTIONS;
	return r < 0 ? PLACED_BY_DRIVER : NULL;
}

const char *library_stays_with(struct session *session, struct library *library)
{
	/* That takes long: only a client that moves waits for it. */
	const bool may_read = atomic_load(&session->is_moving);

	/* Code that has not run has left nothing behind. */
	if (may_read && !library->placements && !library->is_looked &&
		(library->reason ? library->is_unread : library->loaded_on != 0)) {
		library->is_looked = true;
		library_set_reason(session, library, look(session, library));
	}
	if (image_allocates(library->deferred.image, library, may_read))
		return "its kernels may have memory of the device heap";
	return library->reason;
}

static const char *libraries_obstacle(struct session *session)
{
	const char *reason = NULL;
	struct library *library;
	uint32_t at = 0;

	while (!reason && (library = handle_next(&session->libraries, &at)))
		reason = library_stays_with(session, library);

	/* Other variables than constants lie in memory of the session. */
	return reason ? reason : constants_obstacle(session);
}

/* Where its variables lie. */
static void libraries_note(struct session *session, struct record_notes *notes)
{
	struct library *library;
	uint32_t at = 0;

	while ((library = handle_next(&session->libraries, &at)))
		for (unsigned i = 0; i < DEVICES_MAX; i++) {
			uint64_t address = library_place(library, i);

			if (address > 0)
				record_notes_add(notes, RECORD_LIBRARY, library->id, i, address);
		}
	constants_note(session, notes);
}

static bool libraries_recall(struct session *session, const struct record_note *note)
{
	struct library *library;

	if (note->kind != RECORD_LIBRARY)
		return true;
	library = session_library(session, note->id);
	if (library && constants_is_note(note))
		return constants_recall(session, library, note);
	return library && session_device_get(session, note->index) &&
	       library_place(library, note->index) == 0 &&
	       library_keep_place(session, library, note->index, note->value);
}

const struct session_part libraries_part = {
	.obstacle = libraries_obstacle,
	.note = libraries_note,
	.recall = libraries_recall,
	.is_recorded = true,
	.is_settled = libraries_are_settled,
	.poll = libraries_poll,
	.keep = libraries_keep,
	.end = libraries_free,
};
