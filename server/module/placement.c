/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Places the variables of libraries. A worker.
 *
 * Invariant: code that is loaded has the addresses of memory that the session owns, until no work
 * of the session is on a GPU after the library's end. Variables have their initial values before
 * the client can launch a kernel of the library, or knows their addresses.
 */

#include "placement.h"

#include <stdatomic.h>
#include <string.h>

#include "disable.h"
#include "frame.h"
#include "kernel.h"
#include "library.h"
#include "library_load.h"
#include "machine_code.h"
#include "managed.h"
#include "server/util/log.h"
#include "server/session/fault.h"
#include "server/session/session.h"
#include "server/share/eviction.h"
#include "server/share/mover.h"
#include "server/share/session_device.h"
#include "server/memory/away.h"
#include "server/memory/space.h"

/*
 * PTX that is compiled once more: a second or two. It was not measured whether the driver keeps
 * results of its linker for the program's next start, as it keeps those of its compiler.
 */
#define PTX_MAX ((uint64_t)1 << 20)

/* Of the names of virtual tables. */
#define TABLE_PREFIX "_ZTV"

/* Why a library stays as the program has loaded it. */
static const char *reason_of(int r)
{
	switch (r) {
	case -EFBIG:
		return "it has code with more than 16 MiB of variables, or more than 64 MiB of "
		       "code";
	case -E2BIG:
		return "it has variables in more than 1 MiB of PTX";
	case -EPERM:
		return "it has code whose __managed__ variables the driver has placed";
	case -EXDEV:
		return "it has code with a variable that holds the address of a function or a "
		       "constant, which the driver does not tell";
	case -ENOMEM:
		return "it has code that needs more of the server's memory than the client may use";
	case -ENODATA:
		return "it has PTX that the driver's linker refused";
	case -ENOEXEC:
		return "the driver refused code whose variables were placed";
	case -ECANCELED:
		return MAY_STAY_TEXT "have code whose variables the driver has placed";
	default:
		return "it has code that refers to its variables in an unknown way";
	}
}

/* The library is used as the program has loaded it: `r' is for reason_of(). */
static void library_stays(struct session *session, struct library *library, int r)
{
	library->stays = true;
	library_set_reason(session, library, reason_of(r));
	if (r != -ECANCELED && session->n_refusals++ < REFUSALS_LOGGED)
		log_line("Client " SESSION_NAME ": its variables stay in the driver's memory: %s",
			SESSION_NAME_ARGS(session), reason_of(r));
}

/* ---- the end */

static void on_unloaded(struct deferred *deferred)
{
	struct placement *placement = container_of(deferred, struct placement, deferred);

	globals_fini(&placement->globals);
	account_free(placement);
}

static void placement_free(struct placement *placement)
{
	if (placement->deferred.library)
		deferred_add(&placement->deferred);
	else
		on_unloaded(&placement->deferred);
}

void placements_flush(struct session *session)
{
	while (session->ending_placements) {
		struct placement *placement = LIST_POP(session->ending_placements);
		struct session_device *sdev = session_device_get(session, placement->device);

		if (sdev && !session->keeps_memory)
			(void)arena_free(&sdev->arena, placement->address);
		session->has_unused = true;
		placement_free(placement);
	}
}

void placements_end(struct session *session, struct library *library)
{
	while (library->placements) {
		struct placement *placement = LIST_POP(library->placements);

		LIST_PUSH(session->ending_placements, placement);
	}
	if (session->ending_placements && !session->busy)
		placements_flush(session);
	/* Otherwise the worker looks until the session has no work. */
	session->has_unused |= session->ending_placements != NULL;
}

/* ---- the code */

/* 0; 1: the image has no variables; or -errno for reason_of(). */
static int globals_of(uint8_t *bytes, size_t size, struct globals *ret_globals)
{
	int r = globals_read(bytes, size, ret_globals);

	if (r < 0) {
		free(bytes);
		return r;
	}
	if (ret_globals->total > 0)
		return 0;
	globals_fini(ret_globals);
	return 1;
}

/* Code whose __managed__ variables are placed already. */
static int copy_managed(const struct library *library, struct globals *ret_globals)
{
	size_t size;
	const uint8_t *placed = managed_code(library->managed, &size);
	uint8_t *bytes = malloc(size + 1);

	if (!bytes)
		return -ENOMEM;
	memcpy(bytes, placed, size);
	bytes[size] = 0;
	return globals_of(bytes, size, ret_globals);
}

static int make_code(
	const struct library *library, const struct device *device, struct globals *ret_globals)
{
	const struct image *image = library->deferred.image;
	uint8_t *bytes;
	size_t size;
	CUresult result;

	if (machine_code_variables(image, device) == 0)
		return 1;
	if (machine_code_most(image, false) > PTX_MAX)
		return -E2BIG;
	result = machine_code_make(image, device, &library->jit, &bytes, &size);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return -ENOMEM;
	return result == CUDA_SUCCESS ? globals_of(bytes, size, ret_globals) : -ENODATA;
}

static int find_code(
	const struct library *library, const struct device *device, struct globals *ret_globals)
{
	uint8_t *bytes;
	size_t size;
	int r;

	if (managed_size(library->managed) > 0)
		return copy_managed(library, ret_globals);
	r = machine_code_find(library->deferred.image, device, &bytes, &size);
	if (r == -ENOEXEC)
		return make_code(library, device, ret_globals);
	return r < 0 ? r : globals_of(bytes, size, ret_globals);
}

/* Replaces the charge for reading it. */
static int pay_for_code(struct placement *placement, uint64_t paid)
{
	account_unkeep(placement, paid);
	return account_keep(placement,
		       placement->globals.size + KEPT_LIBRARY + KEPT_CODE(placement->globals.size))
		       ? 0
		       : -ENOMEM;
}

/* As globals_of(). */
static int placement_new(struct session *session, const struct library *library,
	const struct device *device, struct placement **ret_placement)
{
	uint64_t paid = machine_code_most(library->deferred.image, true);
	struct placement *placement = account_alloc(session->account, sizeof(*placement), paid);
	int r;

	if (!placement)
		return -ENOMEM;
	placement->device = device->ordinal;
	placement->deferred.on_done = on_unloaded;
	r = find_code(library, device, &placement->globals);
	if (r == 0)
		r = pay_for_code(placement, paid);
	if (r != 0) {
		on_unloaded(&placement->deferred);
		return r;
	}
	*ret_placement = placement;
	return 0;
}

/* ---- its memory */

/* The driver refuses the code. */
static bool may_try_again(CUresult result)
{
	return result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_FOUND &&
	       result != CUDA_ERROR_OUT_OF_MEMORY && !result_is_fault(result);
}

/* A variable whose value the loader has completed in its own copy. */
struct loaded {
	struct loaded *next;
	CUdeviceptr copy;
	uint64_t offset, size; /* in the placement */
};

struct loading {
	struct session *session;
	struct library *library;
	struct session_device *sdev;
	const struct placement *placement;
	struct loaded *all;
	bool has_others; /* than virtual tables, which nothing changes */
	CUresult result;
};

static void loading_end(struct loading *loading)
{
	while (loading->all)
		account_free(LIST_POP(loading->all));
}

/* Loads the code. */
static CUresult ask_for_copy(
	struct loading *loading, const char *name, CUdeviceptr *ret_copy, size_t *ret_size)
{
	struct library *library = loading->library;
	struct device *device = loading->sdev->device;
	unsigned round = 0;
	CUresult result;

	do {
		if (!library_load_begin(loading->session, library, device))
			return CUDA_ERROR_MPS_RPC_FAILURE;
		result = cuda.cuLibraryGetGlobal(
			ret_copy, ret_size, loading->placement->deferred.library, name);
		library_load_end(library, device, result);
	} while (space_make_for_driver(loading->session, loading->sdev, result, round++));
	return result;
}

static int find_copy(void *arg, const char *name, uint64_t offset, uint64_t size)
{
	struct loading *loading = arg;
	struct loaded *loaded;
	CUdeviceptr copy = 0;
	size_t copy_size = 0;

	loading->result = ask_for_copy(loading, name, &copy, &copy_size);
	if (loading->result == CUDA_ERROR_NOT_FOUND)
		return -ENOENT;
	if (loading->result != CUDA_SUCCESS)
		return -ENOEXEC;
	if (copy_size < size)
		return -ENOENT;
	loaded = account_alloc(loading->session->account, sizeof(*loaded), 0);
	if (!loaded)
		return -ENOMEM;
	*loaded = (struct loaded){.copy = copy, .offset = offset, .size = size};
	LIST_PUSH(loading->all, loaded);
	loading->has_others |= strncmp(name, TABLE_PREFIX, strlen(TABLE_PREFIX)) != 0;
	return 0;
}

/* *ret_r as in load_placed(). `marks' are zeros afterwards, unless that fails. */
static CUresult find_copies(struct loading *loading, uint8_t *marks, int *ret_r)
{
	loading->result = CUDA_SUCCESS;
	*ret_r = globals_find_loaded(&loading->placement->globals, marks, find_copy, loading);
	if (*ret_r == -ENOENT || *ret_r == -EFBIG)
		*ret_r = -EXDEV;
	/* Otherwise the code is used as the program has loaded it. */
	return *ret_r == -ENOEXEC && !may_try_again(loading->result) ? loading->result
								     : CUDA_SUCCESS;
}

/* `values' are zeros, with space for all variables. `is_kept': the memory has them already. */
static CUresult write_values(const struct loading *loading, uint8_t *values, bool is_kept)
{
	const struct placement *placement = loading->placement;
	struct mover mover;
	CUresult result;

	if (is_kept && !loading->all)
		return CUDA_SUCCESS;
	if (is_kept && !away_return(loading->session))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	result = mover_begin(&mover, loading->session, loading->sdev);
	if (result != CUDA_SUCCESS)
		return result;
	if (!is_kept) {
		globals_initialise(&placement->globals, values);
		(void)mover_write(&mover, placement->address, values, placement->globals.total);
	}
	for (const struct loaded *one = loading->all; one; one = one->next)
		(void)mover_copy(&mover, placement->address + one->offset, one->copy, one->size);
	return mover_end(&mover);
}

/*
 * Whether the driver finds as many kernels in the changed code as in the image. If not, it has
 * chosen other code.
 */
static bool is_same_code(const struct library *library, CUlibrary real)
{
	unsigned n = 0, n_before = 0;

	return cuda.cuLibraryGetKernelCount(&n, real) == CUDA_SUCCESS &&
	       cuda.cuLibraryGetKernelCount(&n_before, library->deferred.library) == CUDA_SUCCESS &&
	       n == n_before;
}

/* *ret_r: 0, or why the code cannot be placed. */
static CUresult load_placed(const struct library *library, struct placement *placement, int *ret_r)
{
	CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
	void *option_value = (void *)1;
	CUresult result;

	*ret_r = globals_place(&placement->globals, placement->address);
	if (*ret_r < 0)
		return CUDA_SUCCESS;
	result = cuda.cuLibraryLoadData(&placement->deferred.library, placement->globals.bytes,
		NULL, NULL, 0, &option, &option_value, 1);
	if (result_is_fault(result))
		return result;
	if (result != CUDA_SUCCESS || !is_same_code(library, placement->deferred.library))
		*ret_r = -ENOEXEC;
	return CUDA_SUCCESS;
}

/* Writes the values of code that is loaded. *ret_r as in load_placed(). */
static CUresult complete(struct loading *loading, bool is_kept, int *ret_r)
{
	const struct globals *globals = &loading->placement->globals;
	_cleanup_account_ uint8_t *values = NULL;
	CUresult result = CUDA_SUCCESS;

	if (is_kept && !globals->has_loaded)
		return CUDA_SUCCESS;
	values = account_alloc(loading->session->account, globals->total, 0);
	*ret_r = values ? 0 : -ENOMEM;
	if (values && globals->has_loaded)
		result = find_copies(loading, values, ret_r);
	if (result == CUDA_SUCCESS && *ret_r == 0)
		result = write_values(loading, values, is_kept);
	if (loading->all && may_try_again(result)) {
		*ret_r = -EXDEV;
		result = CUDA_SUCCESS;
	}
	return result;
}

/*
 * Loads the code for memory that it takes, or that has the values already. *ret_r as in
 * load_placed().
 */
static CUresult place_in(struct session *session, struct library *library,
	struct session_device *sdev, struct placement *placement, uint64_t kept_at, int *ret_r)
{
	struct loading loading = {session, library, sdev, placement, NULL, false, CUDA_SUCCESS};
	CUresult result = CUDA_SUCCESS;

	placement->address = kept_at;
	if (!kept_at)
		result = space_take(session, sdev, placement->globals.total, &placement->address);
	if (result != CUDA_SUCCESS)
		return result;
	result = load_placed(library, placement, ret_r);
	if (result == CUDA_SUCCESS && *ret_r == 0)
		result = complete(&loading, kept_at != 0, ret_r);
	placement->keeps_functions = loading.has_others || placement->globals.takes_functions;
	loading_end(&loading);
	if (!kept_at && (result != CUDA_SUCCESS || *ret_r < 0))
		(void)arena_free(&sdev->arena, placement->address);
	return result;
}

/* The code cannot be placed as it was. */
static bool is_kept_wrongly(
	struct session *session, const struct placement *placement, uint64_t kept_at, int r)
{
	/* The address may be of another process (server/replay.h). */
	return kept_at && (r < 0 || placement->keeps_functions ||
				  !memory_check(session, kept_at, placement->globals.total));
}

/* On failure, `placement' is freed. `kept_at': memory that has the values already; 0: none. */
static CUresult place(struct session *session, struct library *library, struct session_device *sdev,
	struct placement *placement, uint64_t kept_at)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	int r = 0;

	if (!is_kept_wrongly(session, placement, kept_at, 0))
		result = place_in(session, library, sdev, placement, kept_at, &r);
	if (result == CUDA_SUCCESS && is_kept_wrongly(session, placement, kept_at, r))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS || r < 0) {
		library->loaded_on &= ~(UINT64_C(1) << sdev->device->ordinal);
		placement_free(placement);
		if (result == CUDA_SUCCESS)
			library_stays(session, library, r);
		return result;
	}
	LIST_PUSH(library->placements, placement);
	if (placement->keeps_functions)
		library_set_reason(session, library, KEEPS_FUNCTIONS);
	return CUDA_SUCCESS;
}

/* ---- finding them */

static struct placement *find(const struct library *library, uint32_t device)
{
	struct placement *placement = library->placements;

	while (placement && placement->device != device)
		placement = placement->next;
	return placement;
}

/* Takes the placement of library_keep_place(), which has no code yet. */
static uint64_t take_kept(struct library *library, uint32_t device)
{
	struct placement *placement = find(library, device);
	uint64_t address = placement ? placement->address : 0;

	if (placement) {
		LIST_DROP(library->placements, placement);
		account_free(placement);
	}
	return address;
}

/* The library's first use on that GPU. */
static CUresult place_first(
	struct session *session, struct library *library, struct session_device *sdev)
{
	struct image *image = library->deferred.image;
	uint64_t kept_at = take_kept(library, sdev->device->ordinal);
	struct placement *placement;
	int r;

	session->can_do_without = true;
	r = placement_new(session, library, sdev->device, &placement);
	session->can_do_without = false;
	if (r == 0)
		return place(session, library, sdev, placement, kept_at);
	if (r < 0)
		library_stays(session, library, r);
	else
		atomic_store_explicit(&image->is_plain, true, memory_order_relaxed);
	return CUDA_SUCCESS;
}

/*
 * To place variables costs time and memory, as the driver has its own copy of each: it is done for
 * sessions whose memory may leave.
 */
static bool is_wanted(const struct session *session)
{
	return eviction_is_allowed(session) && !disable_has(DISABLE_PLACE);
}

static bool may_place(const struct library *library, const struct device *device)
{
	return !library->stays && !library_is_loaded(library, device) &&
	       !atomic_load_explicit(&library->deferred.image->is_plain, memory_order_relaxed);
}

CUresult placement_get(struct session *session, struct library *library,
	struct session_device *sdev, const struct placement **ret_placement)
{
	const struct placement *placement = find(library, sdev->device->ordinal);
	bool is_known = placement && placement->deferred.library;
	CUresult result = CUDA_SUCCESS;

	*ret_placement = is_known ? placement : NULL;
	if (is_known || !may_place(library, sdev->device))
		return CUDA_SUCCESS;
	if (!placement && !is_wanted(session)) {
		library_stays(session, library, -ECANCELED);
		library->is_unread = true;
		return CUDA_SUCCESS;
	}
	result = place_first(session, library, sdev);
	*ret_placement = find(library, sdev->device->ordinal);
	return result;
}

bool placement_refuse(struct session *session, struct library *library,
	const struct session_device *sdev, CUresult result)
{
	if (!may_try_again(result) || library->is_used || !find(library, sdev->device->ordinal))
		return false;
	placements_end(session, library);
	kernels_forget(library);
	library->loaded_on = 0;
	library_stays(session, library, -ENOEXEC);
	return true;
}

uint64_t library_place(const struct library *library, uint32_t device)
{
	const struct placement *placement = find(library, device);

	return placement ? placement->address : 0;
}

bool library_keep_place(
	struct session *session, struct library *library, uint32_t device, uint64_t address)
{
	struct placement *placement = account_alloc(session->account, sizeof(*placement), 0);

	if (!placement)
		return false;
	placement->device = device;
	placement->address = address;
	placement->deferred.on_done = on_unloaded;
	LIST_PUSH(library->placements, placement);
	return true;
}
