/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Allocations and regions on their way to another server, which gets a descriptor of each
 * allocation, or of a copy of its bytes that are away, and maps it at the same addresses. A worker,
 * or the thread of server/arrival.c.
 *
 * Invariant: an allocation of a pack has an ID or a mapping, as in a session; one that is away has
 * a mapping through which its bytes come back.
 */

#include "away.h"
#include "mapping.h"
#include "wire.h"
#include "server/util/bitmap.h"
#include "server/util/memory_file.h"
#include "server/util/pack.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/driver/owner.h"
#include "server/share/session_devices.h"
#include "server/share/store_file.h"

#define WINDOWS ((DEVICE_SPACE_END - DEVICE_SPACE) / VA_WINDOW)

/* Bits of packed_allocation::flags. */
enum {
	RELEASED = 1,
	EXPORTABLE = 2,
	EXPORTED = 4,
	CHARGED = 8, /* to the quota of its GPU: the client has made it */
	AWAY = 16,
	FLAGS_ALL = 31,
};

/* The others have a descriptor. */
static bool is_kept_back(const struct allocation *allocation)
{
	return allocation->memory &&
	       allocation->prop.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE;
}

const char *virtual_stays(const struct session *session)
{
	static const char why[] = "it has compressed memory";
	const struct allocation *allocation;
	uint32_t at = 0;

	while ((allocation = handle_next(&session->allocations, &at)))
		if (is_kept_back(allocation))
			return why;
	for (const struct region *region = session->regions; region; region = region->next)
		for (uint32_t i = 0; i < region->n; i++)
			if (is_kept_back(region->mappings[i].allocation))
				return why;
	return NULL;
}

/* ---- into the pack */

static int allocation_export(const struct allocation *allocation)
{
	int fd = -EBADF;

	if (allocation->is_away)
		return store_file_save(&allocation->stored, allocation->size);
	return cuda.cuMemExportToShareableHandle(&fd, allocation->handle,
		       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_SUCCESS
		       ? fd
		       : -EIO;
}

static int allocation_pack(const struct allocation *allocation, struct pack *pack)
{
	int fd = allocation_export(allocation);

	if (fd < 0)
		return fd;
	pack_put_number(pack, allocation->id);
	pack_put_number(pack, allocation->size);
	pack_put_number(pack, allocation->device->ordinal);
	pack_put_number(pack, (allocation->is_released ? RELEASED : 0) |
				      (allocation->is_exportable ? EXPORTABLE : 0) |
				      (allocation->is_exported ? EXPORTED : 0) |
				      (allocation->memory ? CHARGED : 0) |
				      (allocation->is_away ? AWAY : 0));
	pack_put_number(pack, allocation_properties(&allocation->prop));
	pack_put_fd(pack, fd);
	return 0;
}

/* Gives each a number: those with an ID first, then those that only a mapping keeps. */
static uint32_t number_all(struct session *session)
{
	struct allocation *allocation;
	uint32_t at = 0, n = 0;

	for (struct region *region = session->regions; region; region = region->next)
		for (uint32_t i = 0; i < region->n; i++)
			region->mappings[i].allocation->number = UINT32_MAX;
	while ((allocation = handle_next(&session->allocations, &at)))
		allocation->number = n++;
	for (struct region *region = session->regions; region; region = region->next)
		for (uint32_t i = 0; i < region->n; i++)
			if (region->mappings[i].allocation->number == UINT32_MAX)
				region->mappings[i].allocation->number = n++;
	return n;
}

static int allocations_pack(struct session *session, struct pack *pack)
{
	const struct allocation *allocation;
	uint32_t at = 0, n = session->allocations.n_used;
	int r = 0;

	pack_put_number(pack, number_all(session));
	while (r == 0 && (allocation = handle_next(&session->allocations, &at)))
		r = allocation_pack(allocation, pack);
	for (struct region *region = session->regions; region; region = region->next)
		for (uint32_t i = 0; r == 0 && i < region->n; i++)
			if (region->mappings[i].allocation->number == n) {
				r = allocation_pack(region->mappings[i].allocation, pack);
				n++;
			}
	return r;
}

static void region_pack(const struct region *region, struct pack *pack)
{
	pack_put_number(pack, region->base);
	pack_put_number(pack, region->size);
	pack_put_number(pack, region->n);
	for (uint32_t i = 0; i < region->n; i++) {
		const struct mapping *mapping = &region->mappings[i];

		pack_put_number(pack, mapping->address);
		pack_put_number(pack, mapping->size);
		pack_put_number(pack, mapping->allocation->number);
		pack_put_number(pack, mapping->readers);
		pack_put_number(pack, mapping->writers);
	}
}

int virtual_pack(struct session *session, struct pack *pack)
{
	uint64_t n = 0;
	int r;

	/* The work has ended, so these have, too. */
	if (session->n_closing_mappings > 0)
		return -EBUSY;
	r = allocations_pack(session, pack);
	for (const struct region *region = session->regions; region; region = region->next)
		n++;
	pack_put_number(pack, n);
	for (const struct region *region = session->regions; region; region = region->next)
		region_pack(region, pack);
	return r;
}

/* ---- out of it */

/* The allocations of a pack; the list is on the account. */
struct packed {
	struct packed_allocation {
		uint64_t id, size, device, flags, properties;
		uint32_t n_mappings;
		bool is_written;               /* by its GPU, through one of them */
		int fd;                        /* in a check, it is the pack's */
		struct allocation *allocation; /* in the other server */
	} * of;
	uint64_t n;
};

struct packed_region {
	uint64_t base, size, n;
	uint64_t end; /* of the mappings before */
};

struct packed_mapping {
	uint64_t address, size, number, readers, writers;
};

static uint64_t devices_mask(void)
{
	return devices_count() < 64 ? (1ull << devices_count()) - 1 : UINT64_MAX;
}

/* Only memory that came from another process has a size that nobody knows. */
static int allocation_read(
	const struct session *session, struct pack *pack, struct packed_allocation *packed)
{
	*packed = (struct packed_allocation){
		.id = pack_get_number(pack, OBJECT_IDS - 1),
		.size = pack_get_number(pack, DEVICE_SPACE_END),
		.device = pack_get_number(pack, DEVICES_MAX - 1),
		.flags = pack_get_number(pack, FLAGS_ALL),
		.properties = pack_get_number(pack, WIRE_ALLOCATION_ALL),
	};
	packed->fd = pack_get_fd(pack);
	if (pack->is_bad || !device_get((uint32_t)packed->device))
		return -EBADMSG;
	if (!(packed->flags & CHARGED))
		return packed->size > 0 || packed->properties || packed->flags & AWAY ||
				       !(packed->flags & EXPORTABLE)
			       ? -EBADMSG
			       : 0;
	return packed->size == 0 || session->arena_bases[packed->device] == 0 ? -EBADMSG : 0;
}

static int packed_read(struct session *session, struct pack *pack, struct packed *packed)
{
	const uint64_t n = pack_get_number(pack, pack->n_fds - pack->fd_at);
	int r = 0;

	*packed = (struct packed){0};
	if (pack->is_bad)
		return -EBADMSG;
	packed->of = account_alloc(session->account, (n + 1) * sizeof(*packed->of), 0);
	if (!packed->of)
		return -ENOMEM;
	/* Descriptors of those behind a wrong one stay the pack's. */
	while (r == 0 && packed->n < n)
		r = allocation_read(session, pack, &packed->of[packed->n++]);
	return r;
}

static int region_read(struct pack *pack, struct packed_region *region)
{
	*region = (struct packed_region){
		.base = pack_get_number(pack, DEVICE_SPACE_END),
		.size = pack_get_number(pack, DEVICE_SPACE_END - DEVICE_SPACE),
		.n = pack_get_number(pack, UINT32_MAX),
	};
	region->end = region->base;
	return region->base < DEVICE_SPACE || region->base % VA_WINDOW || region->size == 0 ||
			       region->size % VA_WINDOW ||
			       region->size > DEVICE_SPACE_END - region->base
		       ? -EBADMSG
		       : 0;
}

/* Mappings of a region come in the order of their addresses. */
static int mapping_read(struct pack *pack, const struct packed *packed,
	struct packed_region *region, struct packed_mapping *mapping)
{
	const uint64_t gpus = devices_mask();
	struct packed_allocation *allocation;

	*mapping = (struct packed_mapping){
		.address = pack_get_number(pack, DEVICE_SPACE_END),
		.size = pack_get_number(pack, region->size),
		.number = pack_get_number(pack, packed->n),
		.readers = pack_get_number(pack, gpus),
		.writers = pack_get_number(pack, gpus),
	};
	if (pack->is_bad || mapping->number == packed->n || mapping->writers & ~mapping->readers ||
		mapping->readers & ~gpus || mapping->address < region->end || mapping->size == 0 ||
		!range_ok(mapping->address - region->base, mapping->size, region->size))
		return -EBADMSG;
	allocation = &packed->of[mapping->number];
	if (allocation->size > 0 && allocation->size != mapping->size)
		return -EBADMSG;
	allocation->n_mappings++;
	allocation->is_written |= mapping->writers >> allocation->device & 1;
	region->end = mapping->address + mapping->size;
	return 0;
}

/* The windows of a region are of no other one: `taken' has a bit for each. */
static int region_check(struct pack *pack, const struct packed *packed, uint64_t *taken)
{
	struct packed_region region;
	struct packed_mapping mapping;
	int r = region_read(pack, &region);

	for (uint64_t at = 0; r == 0 && at < region.size; at += VA_WINDOW) {
		uint32_t window = owner_va_window(region.base + at);

		r = bit_get(taken, window) ? -EBADMSG : 0;
		bit_set(taken, window, true);
	}
	for (uint64_t i = 0; r == 0 && i < region.n; i++)
		r = mapping_read(pack, packed, &region, &mapping);
	return r;
}

/* Each has an ID of its own, or a mapping. */
static int ids_check(struct session *session, const struct packed *packed)
{
	_cleanup_account_ uint64_t *taken =
		account_alloc(session->account, BITS_WORDS(OBJECT_IDS) * sizeof(uint64_t), 0);

	if (!taken)
		return -ENOMEM;
	for (uint64_t i = 0; i < packed->n; i++) {
		const struct packed_allocation *of = &packed->of[i];

		if (of->flags & AWAY && (!of->is_written || !memory_file_ok(of->fd, of->size)))
			return -EBADMSG;
		if (of->flags & RELEASED) {
			if (of->n_mappings == 0)
				return -EBADMSG;
			continue;
		}
		if (bit_get(taken, (uint32_t)of->id))
			return -EBADMSG;
		bit_set(taken, (uint32_t)of->id, true);
	}
	return 0;
}

int virtual_check(struct session *session, struct pack *pack)
{
	uint64_t taken[BITS_WORDS(WINDOWS)] = {0}, n;
	struct packed packed;
	int r = packed_read(session, pack, &packed);

	n = r == 0 ? pack_get_number(pack, WINDOWS) : 0;
	for (uint64_t i = 0; r == 0 && i < n; i++)
		r = region_check(pack, &packed, taken);
	if (r == 0 && packed.n > 0)
		r = ids_check(session, &packed);
	account_free(packed.of);
	return pack->is_bad ? -EBADMSG : r;
}

/* Memory of the driver, which the quota of its GPU counts. */
static int allocation_import(const struct packed_allocation *packed, struct device_quota *memory,
	CUmemGenericAllocationHandle *ret_handle)
{
	if (!device_quota_charge(memory, packed->size))
		return -ENOMEM;
	*ret_handle = 0;
	if (packed->flags & AWAY)
		return 0;
	if (cuda.cuMemImportFromShareableHandle(ret_handle, (void *)(uintptr_t)packed->fd,
		    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS)
		return 0;
	device_quota_refund(memory, packed->size);
	return -EIO;
}

/* As when it left; it is charged, and has no handle. */
static int allocation_store(struct session_device *sdev, struct allocation *allocation, int fd)
{
	int r = store_file_load(sdev->arena.account, fd, allocation->size, &allocation->stored);

	allocation->is_away = true;
	sdev->allocations_away += allocation->size;
	device_quota_leave(allocation->memory, allocation->size);
	return r;
}

static void fill_allocation(struct allocation *allocation, const struct packed_allocation *packed,
	struct device_quota *memory)
{
	allocation->id = (uint32_t)packed->id;
	allocation->size = packed->size;
	allocation->device = device_get((uint32_t)packed->device);
	allocation->is_released = packed->flags & RELEASED;
	allocation->is_exportable = packed->flags & EXPORTABLE;
	allocation->is_exported = packed->flags & EXPORTED;
	allocation->memory = device_quota_ref(memory);
	if (memory)
		allocation->prop = allocation_prop(allocation->device, (uint32_t)packed->properties,
			allocation->is_exportable);
}

static int allocation_unpack(struct session *session, struct packed_allocation *packed)
{
	const bool is_charged = packed->flags & CHARGED;
	struct session_device *sdev = session->devices[packed->device];
	struct allocation *allocation =
		account_alloc(session->account, sizeof(*allocation), KEPT_ALLOCATION);
	int r = allocation ? 0 : -ENOMEM;

	if (r == 0 && is_charged && !sdev)
		r = -EBADMSG;
	if (r == 0)
		r = allocation_import(
			packed, is_charged ? sdev->memory : NULL, &allocation->handle);
	if (r < 0) {
		account_free(allocation);
		return r;
	}
	fill_allocation(allocation, packed, is_charged ? sdev->memory : NULL);
	packed->allocation = allocation;
	if (packed->flags & AWAY)
		r = allocation_store(sdev, allocation, packed->fd);
	if (r == 0 && !allocation->is_released)
		r = handle_put(&session->allocations, allocation->id, allocation);
	if (r < 0)
		allocation_free(TAKE_PTR(packed->allocation), false);
	return r;
}

static int mapping_unpack(struct session *session, struct region *region,
	const struct packed_mapping *packed, struct allocation *allocation)
{
	const struct mapping mapping = {
		.address = packed->address,
		.size = packed->size,
		.allocation = allocation,
		.readers = packed->readers,
		.writers = packed->writers,
	};

	if (!account_grow_list(session->account, &region->mappings, region->n, &region->n_max,
		    sizeof(mapping)) ||
		!account_keep(region, KEPT_MAPPING))
		return -ENOMEM;
	if (!allocation->is_away && mapping_fill(&mapping) != CUDA_SUCCESS) {
		account_unkeep(region, KEPT_MAPPING);
		return -EIO;
	}
	region->mappings[region->n++] = mapping;
	allocation->n_mappings++;
	return 0;
}

static int region_unpack(struct session *session, struct pack *pack, const struct packed *packed)
{
	struct packed_region said;
	struct packed_mapping mapping;
	struct region *region;
	int r = region_read(pack, &said);

	if (r == 0 &&
		region_new(session, said.size, owner_va_window(said.base), &region) != CUDA_SUCCESS)
		r = -ENOMEM;
	if (r == 0 && region->base != said.base)
		r = -EADDRINUSE;
	for (uint64_t i = 0; r == 0 && i < said.n; i++) {
		r = mapping_read(pack, packed, &said, &mapping);
		if (r == 0)
			r = mapping_unpack(
				session, region, &mapping, packed->of[mapping.number].allocation);
	}
	return r;
}

/* What neither an ID nor a mapping keeps ends, and all descriptors: the driver has the memory. */
static void packed_end(struct packed *packed)
{
	for (uint64_t i = 0; i < packed->n; i++) {
		struct allocation *allocation = packed->of[i].allocation;

		closep(&packed->of[i].fd);
		if (allocation && allocation->is_released && allocation->n_mappings == 0)
			allocation_free(allocation, false);
	}
	account_free(packed->of);
}

int virtual_unpack(struct session *session, struct pack *pack)
{
	struct packed packed;
	int r = packed_read(session, pack, &packed);
	uint64_t n;

	if (r == 0 && packed.n > 0)
		session_device_enter_any(session);
	for (uint64_t i = 0; r == 0 && i < packed.n; i++)
		r = allocation_unpack(session, &packed.of[i]);
	n = r == 0 ? pack_get_number(pack, WINDOWS) : 0;
	if (n > 0)
		session_device_enter_any(session);
	for (uint64_t i = 0; r == 0 && i < n; i++)
		r = region_unpack(session, pack, &packed);
	if (r == 0 && packed.n > 0)
		r = ids_check(session, &packed);
	packed_end(&packed);
	away_note_arrival(session);
	return pack->is_bad ? -EBADMSG : r;
}
