/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Settings: names of GPUs, limits by name, the environment, texts, and the
 * resulting limits of a client.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/text/group_name.h"
#include "daemon/config/devices.h"
#include "daemon/config/settings.h"

#define GIB ((uint64_t)1 << 30)

static const struct devices no_devices;

/* Two GPUs whose UUIDs begin alike. */
static struct devices two_devices(void)
{
	static struct frame_device items[2] = {
		{.ordinal = 0, .n_devices = 2, .pci_bus_id = "0000:00:06.0", .name = "one"},
		{.ordinal = 1, .n_devices = 2, .pci_bus_id = "0000:A1:00.0", .name = "two"},
	};

	for (unsigned i = 0; i < 2; i++) {
		memcpy(items[i].uuid, "\xb5\x6f\xe4\x13\x9f\x6c\x3f\xc6", 8);
		items[i].uuid[8] = (uint8_t)(0x10 + i);
	}
	return (struct devices){.n = 2, .items = items};
}

static void check_name(const char *name, int want, unsigned ordinal)
{
	const struct devices devices = two_devices();
	const struct frame_device *device = NULL;

	assert_int_equal(devices_find(&devices, name, &device), want);
	if (want == 0)
		assert_int_equal(device->ordinal, ordinal);
}

static void test_names(_unused_ void **state)
{
	check_name("0", 0, 0);
	check_name("01", 0, 1);
	check_name("2", -ENODEV, 0);
	check_name("0000:00:06.0", 0, 0);
	check_name("00000000:00:06.0", 0, 0);
	check_name("00:06.0", 0, 0);
	check_name("00:06", 0, 0);
	check_name("0000:00.06.00", 0, 0);
	check_name("a1:00.0", 0, 1);
	check_name("0000:a1:00.0", 0, 1);
	check_name("0001:a1:00.0", -ENODEV, 0);
	check_name("a1:00.1", -ENODEV, 0);
	check_name("GPU-b56fe413-9f6c-3fc6-1000-000000000000", 0, 0);
	check_name("gpu-B56FE413-9F6C-3FC6-1100-000000000000", 0, 1);
	check_name("b56fe413-9f6c-3fc6-1100-000000000000", 0, 1);
	check_name("b56fe4139f6c3fc61100000000000000", 0, 1);
	check_name("MIG-b56fe413-9f6c-3fc6-11", 0, 1);
	check_name("GPU-b56fe413-9f6c-3fc6-1", -ENOTUNIQ, 0);
	check_name("GPU-b56fe413-", -ENOTUNIQ, 0);
	check_name("b5", -ENOTUNIQ, 0);
	check_name("c5", -ENODEV, 0);
	check_name("GPU-", -ENODEV, 0);
	check_name("", -ENODEV, 0);
	check_name("b56fe413-9f6c-3fc6-1100-0000000000000", -ENODEV, 0);
}

static void test_plausible_names(_unused_ void **state)
{
	static const char *const right[] = {"0", "63", "GPU-1", "1234", "00:06.0", "MIG-ab-cd"};
	static const char *const wrong[] = {"", "64", "-1", "GPU-", "GPU--", "x", "1:2:3:4:5", ":",
		"00:", "1G", "0000000000000000000000000000000000000000000000000000000000000000"};

	for (size_t i = 0; i < ARRAY_SIZE(right); i++)
		assert_true(device_name_ok(right[i]));
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_false(device_name_ok(wrong[i]));
}

/* Each GPU has one limit, whatever name set it. */
static void test_memory(_unused_ void **state)
{
	const struct devices devices = two_devices(), none = {0};
	struct settings settings;

	settings_init(&settings);
	assert_true(settings_get_memory(&settings, &devices, "0") == MEMORY_ALL);
	assert_int_equal(settings_set_memory(&settings, &devices, "0", 2 * GIB), 0);
	assert_int_equal(settings_set_memory(&settings, &devices, "00:06.0", GIB), 0);
	assert_int_equal(settings.n_memory, 1);
	assert_int_equal(settings_get_memory(&settings, &devices, "0"), GIB);
	assert_true(settings_get_memory(&settings, &devices, "1") == MEMORY_ALL);
	settings_unset_memory(&settings, &devices, "0");
	assert_int_equal(settings.n_memory, 0);

	/* If names turn out to mean one GPU, the last limit counts. */
	assert_int_equal(settings_set_memory(&settings, &none, "1", GIB), 0);
	assert_int_equal(settings_set_memory(&settings, &none, "a1:00.0", 3 * GIB), 0);
	assert_int_equal(settings.n_memory, 2);
	assert_int_equal(settings_get_memory(&settings, &devices, "1"), 3 * GIB);
	assert_int_equal(settings_set_memory(&settings, &devices, "1", 4 * GIB), 0);
	assert_int_equal(settings.n_memory, 1);

	settings_init(&settings);
	for (unsigned i = 0; i < DEVICES_MAX; i++) {
		char name[16];

		snprintf(name, sizeof(name), "%u", i);
		assert_int_equal(settings_set_memory(&settings, &none, name, GIB), 0);
	}
	assert_int_equal(settings_set_memory(&settings, &none, "GPU-1", GIB), -ENOSPC);
}

static void test_lower(_unused_ void **state)
{
	const struct devices devices = two_devices();
	struct settings server = {.active_threads = 50000, .priority = -1}, group;
	struct frame_limits limits;

	limits_init(&limits);
	settings_set_memory(&server, &devices, "1", 2 * GIB);
	settings_set_memory(&server, &devices, "7", GIB);
	settings_lower(&server, &devices, &limits);
	assert_int_equal(limits.active_threads, 50000);
	assert_int_equal(limits.priority, 0);
	assert_true(limits.memory[0] == MEMORY_ALL && limits.memory[7] == MEMORY_ALL);
	assert_int_equal(limits.memory[1], 2 * GIB);

	settings_init(&group);
	settings_lower(&group, &devices, &limits);
	assert_int_equal(limits.active_threads, 50000);
	group.active_threads = 70000;
	group.priority = 2;
	settings_set_memory(&group, &devices, "1", 3 * GIB);
	settings_set_memory(&group, &devices, "0", 3 * GIB);
	settings_lower(&group, &devices, &limits);
	assert_int_equal(limits.active_threads, 50000);
	assert_int_equal(limits.priority, 2);
	assert_int_equal(limits.memory[0], 3 * GIB);
	assert_int_equal(limits.memory[1], 2 * GIB);
}

static void set_environment(const char *percentage, const char *memory, const char *priority)
{
	setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percentage, 1);
	setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", memory, 1);
	setenv("CUDA_MPS_CLIENT_PRIORITY", priority, 1);
}

static void test_environment(_unused_ void **state)
{
	static const char *const wrong[][3] = {{"0", "", ""}, {"101", "", ""}, {"x", "", ""},
		{"", "1G", ""}, {"", "0=1T", ""}, {"", "0=1.5G", ""}, {"", "0=1G,x=1G", ""},
		{"", "", "3"}, {"", "", "-1"}};
	const struct devices devices = two_devices();
	struct settings settings;
	struct error_message error;

	set_environment("", "", "");
	assert_int_equal(settings_load(&settings, &error), 0);
	assert_int_equal(settings.active_threads, ACTIVE_THREADS_ALL);
	assert_int_equal(settings.priority, 0);
	assert_int_equal(settings.n_memory, 0);

	set_environment("12.5", "0=1G,GPU-b56fe413-9f6c-3fc6-11=512MB,0=2G", "2");
	assert_int_equal(settings_load(&settings, &error), 0);
	assert_int_equal(settings.active_threads, 12500);
	assert_int_equal(settings.priority, 2);
	assert_int_equal(settings_get_memory(&settings, &devices, "0"), 2 * GIB);
	assert_int_equal(settings_get_memory(&settings, &devices, "1"), GIB / 2);

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		set_environment(wrong[i][0], wrong[i][1], wrong[i][2]);
		assert_int_equal(settings_load(&settings, &error), -EINVAL);
		assert_non_null(strstr(error.text, "CUDA_MPS_"));
	}
}

static void test_numbers(_unused_ void **state)
{
	char text[PERCENTAGE_TEXT];
	int32_t priority = 7;

	format_percentage(33333, text, sizeof(text));
	assert_string_equal(text, "33.3");
	format_percentage(100000, text, sizeof(text));
	assert_string_equal(text, "100.0");
	format_percentage(99, text, sizeof(text));
	assert_string_equal(text, "0.0");
	assert_int_equal(parse_priority("2", &priority), 0);
	assert_int_equal(priority, 2);
	assert_int_equal(parse_priority("3", &priority), -EINVAL);
	assert_int_equal(parse_priority("", &priority), -EINVAL);
	assert_int_equal(priority, 2);
}

static void check_text(const struct settings *settings, enum setting setting, const char *want)
{
	char text[SETTING_TEXT_MAX];

	setting_format(settings, setting, text);
	assert_string_equal(text, want);
}

static void test_texts(_unused_ void **state)
{
	static const char *const texts[SETTINGS] = {"12.5", "0=1G,1=1536M", "2", "yes", "8G"};
	struct settings settings, other;

	settings_init(&settings);
	settings_init(&other);
	for (enum setting setting = 0; setting < SETTINGS; setting++) {
		struct error_message error;

		check_text(&settings, setting, "none");
		assert_false(setting_is_set(&settings, setting));
		assert_int_equal(settings_read(&settings, setting, texts[setting], &error), 0);
		assert_true(setting_is_set(&settings, setting));
		check_text(&settings, setting, texts[setting]);
		assert_false(setting_is_equal(&settings, &other, setting, &no_devices));
		assert_true(setting_is_equal(&settings, &settings, setting, &no_devices));
		settings_unset(&settings, setting);
		check_text(&settings, setting, "none");
	}
}

/* The order of the limits is of no importance. */
static void test_equal_memory(_unused_ void **state)
{
	struct settings settings, other;

	settings_init(&settings);
	settings_init(&other);
	settings_set_memory(&settings, &no_devices, "1", GIB);
	settings_set_memory(&settings, &no_devices, "0", 2 * GIB);
	settings_set_memory(&other, &no_devices, "0", 2 * GIB);
	assert_false(setting_is_equal(&settings, &other, SETTING_MEMORY, &no_devices));
	settings_set_memory(&other, &no_devices, "1", GIB);
	assert_true(setting_is_equal(&settings, &other, SETTING_MEMORY, &no_devices));
	settings_set_memory(&other, &no_devices, "1", 2 * GIB);
	assert_false(setting_is_equal(&settings, &other, SETTING_MEMORY, &no_devices));
}

static void test_group_names(_unused_ void **state)
{
	char both[] = "4:memory:/old\n0::/kubepods/pod1/x\n", old[] = "4:memory:/old\n";
	char long_name[300];

	memset(long_name, 'a', sizeof(long_name));
	long_name[255] = '\0';
	assert_true(group_name_ok(long_name));
	long_name[255] = 'a';
	long_name[256] = '\0';
	assert_false(group_name_ok(long_name));
	assert_true(group_name_ok("/kubepods/pod-1_x.slice"));
	assert_false(group_name_ok(""));
	assert_false(group_name_ok("a b"));
	assert_false(group_name_ok("a\n"));

	assert_true(group_name_is_above("/kubepods/pod1", "/kubepods/pod1/x"));
	assert_true(group_name_is_above("/kubepods/pod1", "/kubepods/pod1"));
	assert_true(group_name_is_above("/kubepods/pod1/", "/kubepods/pod1/x"));
	assert_false(group_name_is_above("/kubepods/pod1", "/kubepods/pod10"));
	assert_false(group_name_is_above("/kubepods/pod1/x", "/kubepods/pod1"));
	assert_false(group_name_is_above("kubepods", "/kubepods"));
	assert_true(group_name_is_above("/", "/x"));
	assert_true(group_name_is_above("/", "/"));

	assert_string_equal(group_name_of_cgroup(both), "/kubepods/pod1/x");
	assert_null(group_name_of_cgroup(old));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_plausible_names),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_lower),
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_equal_memory),
		cmocka_unit_test(test_group_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
