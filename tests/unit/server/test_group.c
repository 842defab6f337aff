/* SPDX-License-Identifier: Apache-2.0 */

/* Groups of clients and the limits of their members, over the counting driver. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/session/group.h"
#include "server/device/device_quota.h"
#include "server/share/grant.h"
#include "server/share/session_device.h"
#include "tests/fuzz/fake_cuda.h"
#include "tests/fuzz/session_harness.h"
#include "send.h"

#define MIB (1ull << 20)
#define N_ENTRIES (GROUPS_MAX + CGROUPS_MAX)

static struct frame_group frame_of(uint32_t id, const char *name, uint64_t memory)
{
	struct frame_group frame = {.id = id};

	frame_init(&frame, FRAME_GROUP, 0);
	snprintf(frame.name, sizeof(frame.name), "%s", name);
	frame.limits.active_threads = ACTIVE_THREADS_ALL;
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		frame.limits.memory[i] = memory, frame.limits.soft[i] = UINT64_MAX;
	return frame;
}

static bool is_set(const struct frame_group *frame)
{
	uint32_t forgotten;

	return group_set(frame, &forgotten);
}

/* The daemon gives this server so much of the group's memory. */
static void lease(uint32_t id, uint64_t bytes, bool is_reply)
{
	struct group *group = group_find(id);
	struct frame_lease frame = {.group = id, .is_reply = is_reply};

	for (unsigned i = 0; i < DEVICES_MAX; i++)
		frame.bytes[i] = bytes;
	lease_take(group, &frame);
	group_unref(group);
}

/* A group of which no other server has clients. */
static void set(uint32_t id, const char *name, uint64_t memory)
{
	struct frame_group frame = frame_of(id, name, memory);

	assert_true(is_set(&frame));
	lease(id, memory, false);
}

static struct frame_limits limits_of(uint64_t memory)
{
	return frame_of(1, "any", memory).limits;
}

/* Of the next member. */
static uint32_t cgroups[CGROUP_LEVELS_MAX];

/* A session as the loop creates it, which has opened GPU 0. */
static void open_member(uint32_t group, uint64_t limit, uint64_t own_limit)
{
	struct frame_limits limits = limits_of(limit);
	uint64_t heap, heap_size, granularity, of_context[16];
	int32_t least, greatest;
	uint32_t n_sms;

	fake_switches = (struct fake_switches){.memory = FAKE_MEMORY};
	harness_open(false);
	for (unsigned i = 0; i < CGROUP_LEVELS_MAX; i++)
		harness.session->cgroups[i] = group_find(cgroups[i]);
	grant_set(harness.session, &limits, group_find(group));
	assert_int_equal(send_device_open(0, 0, own_limit, &n_sms, &heap, &heap_size, &granularity,
				 &least, &greatest, of_context),
		CUDA_SUCCESS);
}

static uint64_t count_pieces(uint64_t size)
{
	uint64_t address, n = 0;

	while (n < 1000 && send_memory_alloc(0, size, &address) == CUDA_SUCCESS)
		n++;
	return n;
}

static void check_info(uint64_t n_free, uint64_t total)
{
	uint64_t told_free, told_total;

	assert_int_equal(send_memory_info(0, &told_free, &told_total), CUDA_SUCCESS);
	assert_int_equal(told_free, n_free);
	assert_int_equal(told_total, total);
}

/* What comes from another server is charged whatever the limit is, and its limits stay. */
static void test_moved(void **state)
{
	struct frame_group lower = frame_of(1, "red", 8 * MIB);
	const struct frame_limits limits = limits_of(UINT64_MAX);
	struct session *session;

	(void)state;
	set(1, "red", 8 * MIB);
	open_member(1, UINT64_MAX, 0);
	session = harness.session;
	lower.limits.active_threads = ACTIVE_THREADS_ALL / 2;
	assert_true(is_set(&lower));
	group_unref(session->group);
	grant_set_moved(session, &limits, group_find(1));
	assert_int_equal(session->limits.active_threads, ACTIVE_THREADS_ALL);
	device_quotas_check(session, false);
	assert_true(device_quota_charge(session->devices[0]->memory, 41 * MIB + 1));
	device_quotas_check(session, true);
	assert_int_equal(quota_used(&session->group->memory[0]), 42 * MIB);
	assert_int_equal(count_pieces(MIB), 0);
	device_quota_refund(session->devices[0]->memory, 41 * MIB + 1);
	assert_int_equal(quota_used(&session->group->memory[0]), 0);
	assert_int_equal(count_pieces(4 * MIB), 2);
	harness_close();
}

/* The smallest of the limits of the operator, the group and the client holds. */
static void test_least_limit_holds(void **state)
{
	static const uint64_t none = UINT64_MAX;
	static const struct {
		uint64_t group, operator, client, least;
	} cases[] = {
		{UINT64_MAX, UINT64_MAX, 0, FAKE_MEMORY},
		{UINT64_MAX, 64 * MIB, 0, 64 * MIB},
		{UINT64_MAX, 64 * MIB, 32 * MIB, 32 * MIB},
		{UINT64_MAX, 64 * MIB, 96 * MIB, 64 * MIB},
		{16 * MIB, 64 * MIB, 32 * MIB, 16 * MIB},
		{80 * MIB, UINT64_MAX, 0, 80 * MIB},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t told = MIN(MIN(cases[i].group, cases[i].operator), FAKE_MEMORY);

		set(1, "red", cases[i].group);
		open_member(1, cases[i].operator, cases[i].client);
		/* The client knows its own limit. */
		assert_int_equal(shm_load64(&harness.session->page->device[0].total_memory), told);
		assert_int_equal(grant_memory_limit(harness.session, 0),
			cases[i].least == FAKE_MEMORY ? none : cases[i].least);
		check_info(cases[i].least, cases[i].least);
		if (cases[i].least < FAKE_MEMORY)
			assert_int_equal(count_pieces(2 * MIB), cases[i].least / (2 * MIB));
		harness_close();
	}
}

/* As if another process used it. */
static struct device_quota *other_member(uint64_t size)
{
	struct group *group = group_find(1);
	struct device_quota *other = device_quota_new(NULL, UINT64_MAX);

	assert_non_null(other);
	device_quota_join(other, group, 0);
	group_unref(group);
	assert_true(device_quota_charge(other, size));
	return other;
}

static void end_other(struct device_quota *other)
{
	device_quota_refund(other, quota_used(&other->quota));
	device_quota_unref(other);
}

static void test_members_share(void **state)
{
	struct device_quota *other;

	(void)state;
	set(1, "red", 64 * MIB);
	other = other_member(40 * MIB);
	open_member(1, UINT64_MAX, 0);
	check_info(24 * MIB, 64 * MIB);
	assert_int_equal(count_pieces(2 * MIB), 12);
	assert_false(device_quota_charge(other, 1));
	check_info(0, 64 * MIB);
	end_other(other);
	check_info(40 * MIB, 64 * MIB);
	harness_close();
}

static uint64_t left_of(uint32_t id)
{
	struct group *group = group_find(id);
	uint64_t left = quota_left(&group->memory[0]);

	group_unref(group);
	return left;
}

static void set_cgroup(uint32_t id, const char *name, uint64_t memory)
{
	struct frame_group frame = frame_of(id, name, memory);

	frame.is_cgroup = 1;
	assert_true(is_set(&frame));
	lease(id, memory, false);
}

/* A client has the limits of its group and of its cgroups, which may have other members. */
static void test_cgroups(void **state)
{
	struct device_quota *memory, *other;
	uint64_t limit = 0;

	(void)state;
	set(1, "red", 64 * MIB);
	set_cgroup(2, "cgroup:/a/b", 32 * MIB);
	set_cgroup(3, "cgroup:/a", 40 * MIB);
	other = device_quota_new(NULL, UINT64_MAX);
	device_quota_join(other, group_find(3), 0);
	assert_true(device_quota_charge(other, 16 * MIB));
	cgroups[0] = 2;
	cgroups[1] = 3;
	open_member(1, UINT64_MAX, 0);
	memory = harness.session->devices[0]->memory;
	check_info(24 * MIB, 32 * MIB);
	assert_int_equal(count_pieces(2 * MIB), 12);
	assert_true(left_of(1) == 40 * MIB && left_of(2) == 8 * MIB && left_of(3) == 0);
	/* What refuses charges nothing else. */
	assert_false(device_quota_charge(memory, MIB));
	assert_int_equal(device_quota_take_refusal(memory, &limit), REFUSAL_BY_CGROUP);
	assert_int_equal(limit, 40 * MIB);
	assert_true(left_of(1) == 40 * MIB && left_of(2) == 8 * MIB && left_of(3) == 0);
	/* The store counts for the session alone, and others have the room meanwhile. */
	device_quota_leave(memory, 20 * MIB);
	assert_int_equal(quota_used(&memory->quota), 24 * MIB);
	assert_true(left_of(1) == 60 * MIB && left_of(2) == 28 * MIB && left_of(3) == 20 * MIB);
	assert_true(device_quota_charge(other, 4 * MIB));
	assert_false(device_quota_return(memory, 20 * MIB));
	assert_ptr_equal(device_quota_full_group(memory, 0, 20 * MIB), memory->in[2].group);
	assert_true(left_of(1) == 60 * MIB && left_of(2) == 28 * MIB && left_of(3) == 16 * MIB);
	device_quota_refund(other, 4 * MIB);
	assert_true(device_quota_return(memory, 20 * MIB));
	group_unref(other->in[0].group);
	end_other(other);
	harness_close();
	assert_true(left_of(1) == 64 * MIB && left_of(2) == 32 * MIB && left_of(3) == 40 * MIB);
	memset(cgroups, 0, sizeof(cgroups));
}

/* What a connected client learns of its group's new limit. */
static void check_told(uint64_t total)
{
	grant_publish_memory(harness.session);
	assert_int_equal(shm_load64(&harness.session->page->device[0].total_memory), total);
	assert_int_equal(grant_memory_limit(harness.session, 0), total);
}

/* A new limit holds at once, and takes nothing away. */
static void test_limit_changes(void **state)
{
	(void)state;
	set(1, "red", 64 * MIB);
	open_member(1, UINT64_MAX, 0);
	assert_int_equal(count_pieces(8 * MIB), 8);
	set(1, "red", 80 * MIB);
	check_told(80 * MIB);
	check_info(16 * MIB, 80 * MIB);
	assert_int_equal(count_pieces(8 * MIB), 2);
	set(1, "red", 16 * MIB);
	check_told(16 * MIB);
	check_info(0, 16 * MIB);
	assert_int_equal(count_pieces(8 * MIB), 0);
	harness_close();
}

/* A client that has left uses nothing of the group's limit. */
static void test_many_in_turn(void **state)
{
	struct group *group;

	(void)state;
	set(1, "red", 64 * MIB);
	group = group_find(1);
	for (uint32_t i = 0; i < 200; i++) {
		uint64_t address, size, start, span;
		uint32_t is_pinned, granted;

		open_member(1, UINT64_MAX, 0);
		check_info(64 * MIB, 64 * MIB);
		assert_int_equal(send_memory_alloc(0, 24 * MIB, &address), CUDA_SUCCESS);
		assert_int_equal(
			send_array_create(i, 0, 1024, 1024, 0, 0x20, 1, 0, 0), CUDA_SUCCESS);
		assert_int_equal(send_allocation_create(i, 0, 16 * MIB, i % 3 == 0, 0, &granted),
			CUDA_SUCCESS);
		if (i % 3 == 0) {
			assert_int_equal(send_allocation_export(i), CUDA_SUCCESS);
			close(harness_read_memory(i, 16 * MIB));
		}
		if (i % 6 == 0)
			send_allocation_release(i);
		assert_int_equal(send_host_region(MIB, 0, 1, &address, &size), CUDA_SUCCESS);
		assert_int_equal(
			send_host_alloc(MIB, 1, &address, &start, &span, &is_pinned), CUDA_SUCCESS);
		if (i % 2)
			assert_int_equal(send_array_destroy(i), CUDA_SUCCESS);
		harness_close();
		assert_int_equal(quota_used(&group->memory[0]), 0);
	}
	assert_int_equal(atomic_load(&group->refs), 1);
	group_unref(group);
}

/* The lower limit of group and client holds; the program sees the part of it that the driver has.
 */
static void test_priorities(void **state)
{
	static const int32_t wanted[3][3] = {{-3, -4, -2}, {-1, -2, -1}, {0, 0, 0}};
	struct frame_group frame = frame_of(1, "red", UINT64_MAX);
	struct frame_limits limits = limits_of(UINT64_MAX);
	uint64_t heap, heap_size, granularity, of_context[16];
	int32_t least, greatest;
	uint32_t n_sms;

	(void)state;
	fake_switches = (struct fake_switches){.memory = FAKE_MEMORY};
	for (int32_t i = 0; i < 9; i++) {
		int32_t lower = MAX(i / 3, i % 3);

		limits.priority = i / 3;
		frame.limits.priority = i % 3;
		assert_true(is_set(&frame));
		harness_open(false);
		grant_set(harness.session, &limits, group_find(1));
		assert_int_equal(send_device_open(0, 0, 0, &n_sms, &heap, &heap_size, &granularity,
					 &least, &greatest, of_context),
			CUDA_SUCCESS);
		assert_int_equal(least, 0);
		assert_int_equal(greatest, wanted[lower][2]);
		assert_int_equal(harness.session->grants[0].priority, lower);
		send_stream_create(DEVICES_MAX, 0, CU_STREAM_NON_BLOCKING, -1);
		assert_int_equal(harness_serve(), 0);
		assert_int_equal(harness.session->devices[0]->null.priority, wanted[lower][0]);
		assert_int_equal(harness.session->streams[DEVICES_MAX]->priority, wanted[lower][1]);
		harness_close();
	}
}

/* The new daemon may use IDs of the old one for other groups; names stay the same. */
static void test_daemon_is_replaced(void **state)
{
	struct device_quota *other;
	struct group *red, *blue;

	(void)state;
	set(1, "red", 64 * MIB);
	set(2, "blue", 32 * MIB);
	other = other_member(40 * MIB);
	/* Groups of two users with one name are separate. */
	set(3, "red", 8 * MIB);
	groups_meet_daemon();
	set(1, "blue", 16 * MIB);
	blue = group_find(1);
	assert_string_equal(blue->name, "blue");
	assert_null(group_find(2));
	set(2, "red", 48 * MIB);
	red = group_find(2);
	assert_string_equal(red->name, "red");
	assert_int_equal(quota_used(&red->memory[0]), 40 * MIB);
	assert_int_equal(quota_left(&red->memory[0]), 8 * MIB);
	assert_int_equal(quota_left(&blue->memory[0]), 16 * MIB);
	end_other(other);
	group_unref(red);
	group_unref(blue);
}

static uint64_t given_back(struct group *group)
{
	uint64_t kept[DEVICES_MAX];

	lease_give_back(group, kept);
	return kept[0];
}

/* Charges meet the lease, not the limit; clients see the limit. */
static void test_lease(void **state)
{
	struct frame_group frame = frame_of(1, "leased", 64 * MIB);
	struct device_quota *other;
	uint64_t kept[DEVICES_MAX];
	struct group *group;

	(void)state;
	groups_meet_daemon();
	assert_true(is_set(&frame));
	group = group_find(1);
	assert_int_equal(quota_left(&group->memory[0]), 0);
	assert_int_equal(quota_limit(&group->memory[0]), 64 * MIB);
	lease(1, 48 * MIB, false);
	assert_int_equal(quota_left(&group->memory[0]), 48 * MIB);
	other = other_member(40 * MIB);
	assert_false(device_quota_charge(other, 9 * MIB));
	/* A smaller lease comes only by giving back. */
	lease(1, 8 * MIB, false);
	assert_int_equal(quota_left(&group->memory[0]), 8 * MIB);
	assert_int_equal(given_back(group), 40 * MIB);
	assert_int_equal(given_back(group), 40 * MIB);
	assert_int_equal(quota_left(&group->memory[0]), 0);
	lease(1, 50 * MIB, false);
	assert_int_equal(quota_left(&group->memory[0]), 10 * MIB);
	/* A lower limit takes nothing away; a higher one does not make the lease larger. */
	set(1, "leased", 32 * MIB);
	lease_get(group, kept);
	assert_int_equal(kept[0], 40 * MIB);
	assert_false(device_quota_charge(other, MIB));
	assert_int_equal(given_back(group), 40 * MIB);
	frame = frame_of(1, "leased", 128 * MIB);
	assert_true(is_set(&frame));
	assert_int_equal(quota_left(&group->memory[0]), 0);
	set(1, "leased", UINT64_MAX);
	assert_true(device_quota_charge(other, 512 * MIB));
	lease_get(group, kept);
	assert_true(kept[0] == UINT64_MAX);
	end_other(other);
	group_unref(group);
}

/* At most one frame waits for its reply. A new daemon gets what the old one did not answer. */
static void test_wants(void **state)
{
	struct frame_lease first = {0}, second = {0};
	struct group *group;

	(void)state;
	set(1, "wants", 64 * MIB);
	group = group_find(1);
	assert_false(lease_next_want(group, &first));
	group->lease.wanted.bytes[0] = 5 * MIB;
	group->lease.n_wants = 2;
	assert_true(lease_next_want(group, &first));
	assert_int_equal(first.bytes[0], 5 * MIB);
	assert_false(lease_next_want(group, &second));
	group->lease.wanted.bytes[1] = MIB;
	group->lease.n_wants++;
	assert_false(lease_next_want(group, &second));
	lease_lose_reply(group);
	assert_true(lease_next_want(group, &second));
	assert_int_equal(second.bytes[0], 5 * MIB);
	assert_int_equal(second.bytes[1], MIB);
	lease(1, 64 * MIB, false);
	assert_int_equal(group->lease.n_replies, 0);
	lease(1, 64 * MIB, true);
	assert_int_equal(group->lease.n_replies, 3);
	assert_false(lease_next_want(group, &second));
	group_unref(group);
}

static void test_malformed(void **state)
{
	struct frame_group frame = frame_of(0, "red", MIB);

	(void)state;
	assert_false(is_set(&frame));
	frame = frame_of(7, "", MIB);
	assert_false(is_set(&frame));
	frame = frame_of(7, "red", MIB);
	frame.limits.active_threads = 0;
	assert_false(is_set(&frame));
	frame = frame_of(7, "red", MIB);
	memset(frame.name, 'x', sizeof(frame.name));
	assert_false(is_set(&frame));
	assert_null(group_find(7));
	assert_null(group_find(0));
}

/* Groups without members are dropped when there is no room. */
static void test_too_many(void **state)
{
	struct group *held[N_ENTRIES];
	struct frame_group frame;
	char name[32];

	(void)state;
	for (uint32_t i = 0; i < 2 * N_ENTRIES; i++) {
		snprintf(name, sizeof(name), "group %u", i);
		set(1000 + i, name, MIB);
	}
	for (uint32_t i = 0; i < N_ENTRIES; i++) {
		snprintf(name, sizeof(name), "held %u", i);
		set(9000 + i, name, MIB);
		held[i] = group_find(9000 + i);
		assert_non_null(held[i]);
	}
	frame = frame_of(1, "one more", MIB);
	assert_false(is_set(&frame));
	assert_null(group_find(1));
	group_unref(held[17]);
	assert_true(is_set(&frame));
	held[17] = group_find(1);
	for (uint32_t i = 0; i < N_ENTRIES; i++)
		group_unref(held[i]);
}

/* Memory of which a descriptor may exist stays charged, but not after the session's end. */
static void test_exported_memory_counts(void **state)
{
	uint64_t address, other;

	(void)state;
	set(1, "red", 64 * MIB);
	for (unsigned is_exported = 0; is_exported < 2; is_exported++) {
		open_member(1, UINT64_MAX, 0);
		assert_int_equal(send_memory_alloc(0, 32 * MIB, &address), CUDA_SUCCESS);
		if (is_exported) {
			assert_int_equal(send_memory_dmabuf(address, 4096), CUDA_SUCCESS);
			close(harness_read_memory(address, 4096));
		}
		send_memory_free(address);
		assert_int_equal(send_memory_alloc(0, 40 * MIB, &other),
			is_exported ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
		assert_int_equal(send_memory_alloc(0, 32 * MIB, &address),
			is_exported ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
		harness_close();
	}
	open_member(1, UINT64_MAX, 0);
	assert_int_equal(count_pieces(2 * MIB), 32);
	harness_close();
}

/* The same for memory that the client has mapped itself. */
static void test_exported_mapping_counts(void **state)
{
	uint64_t base, size;
	uint32_t granted;

	(void)state;
	set(1, "red", 64 * MIB);
	open_member(1, UINT64_MAX, 0);
	assert_int_equal(send_address_region(32 * MIB, &base, &size), CUDA_SUCCESS);
	assert_int_equal(send_allocation_create(1, 0, 32 * MIB, 0, 0, &granted), CUDA_SUCCESS);
	assert_int_equal(send_allocation_map(1, base, 32 * MIB), CUDA_SUCCESS);
	assert_int_equal(send_memory_dmabuf(base, 4096), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(send_allocation_access(base, 32 * MIB, 0, 3), CUDA_SUCCESS);
	assert_int_equal(send_memory_dmabuf(base, 4096), CUDA_SUCCESS);
	close(harness_read_memory(base, 4096));
	send_allocation_unmap(base, 32 * MIB);
	send_allocation_release(1);
	harness_serve();
	assert_int_equal(count_pieces(2 * MIB), 16);
	harness_close();
	open_member(1, UINT64_MAX, 0);
	assert_int_equal(count_pieces(2 * MIB), 32);
	harness_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_least_limit_holds),
		cmocka_unit_test(test_moved),
		cmocka_unit_test(test_members_share),
		cmocka_unit_test(test_cgroups),
		cmocka_unit_test(test_limit_changes),
		cmocka_unit_test(test_many_in_turn),
		cmocka_unit_test(test_priorities),
		cmocka_unit_test(test_daemon_is_replaced),
		cmocka_unit_test(test_lease),
		cmocka_unit_test(test_wants),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_exported_memory_counts),
		cmocka_unit_test(test_exported_mapping_counts),
	};

	return cmocka_run_group_tests_name("server group", tests, NULL, NULL);
}
