/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Layers of settings: which value counts, and what a reload of the
 * configuration file leaves of the commands. Each case is a row of a table.
 */

#include <stdio.h>
#include <string.h>

#include "rows.h"
#include "daemon/config/settings.h"

#define GIB ((uint64_t)1 << 30)

static const struct devices no_devices;

/* What one layer says, or what counts; 0, -1 and NULL: nothing. */
struct says {
	uint32_t percent;
	int32_t priority;
	const char *memory; /* "0=1G,1=none" */
};

#define NOTHING                                                                                    \
	{                                                                                          \
		0, -1, NULL                                                                        \
	}

/* Adds "DEVICE=SIZE", or "DEVICE=none". */
static void add_memory(struct settings *settings, char *entry)
{
	char *size = strchr(entry, '=');
	uint64_t bytes = MEMORY_ALL;

	*size++ = '\0';
	if (strcmp(size, "none") != 0)
		bytes = strtoull(size, NULL, 10) * GIB;
	assert_int_equal(settings_set_memory(settings, &no_devices, entry, bytes), 0);
}

static struct settings settings_of(const struct says *says)
{
	char copy[64], *rest = NULL;
	struct settings settings;

	settings_init(&settings);
	settings.active_threads = says->percent * 1000;
	settings.priority = says->priority;
	snprintf(copy, sizeof(copy), "%s", says->memory ? says->memory : "");
	for (char *entry = strtok_r(copy, ",", &rest); entry; entry = strtok_r(NULL, ",", &rest))
		add_memory(&settings, entry);
	return settings;
}

static void check(const struct settings *is, const struct says *want)
{
	const struct settings wanted = settings_of(want);

	for (enum setting setting = 0; setting < SETTINGS; setting++)
		if (!setting_is_equal(is, &wanted, setting, &no_devices)) {
			char text[SETTING_TEXT_MAX];

			setting_format(is, setting, text);
			fail_msg("%s is %s", setting_name(setting), text);
		}
	assert_int_equal(is->n_memory, wanted.n_memory);
}

/* ---- what counts */

static const struct fold_row {
	const char *about;
	struct says environment, file, command, section, of_server, wish, want;
} fold_rows[] = {
	{"nothing is set", {100, 0, NULL}, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING,
		{100, 0, NULL}},
	{"the environment", {40, 1, "0=1G"}, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING,
		{40, 1, "0=1G"}},
	{"[default]", {100, 0, NULL}, {50, 1, "0=1G"}, NOTHING, NOTHING, NOTHING, NOTHING,
		{50, 1, "0=1G"}},
	{"a command about the defaults", {100, 0, NULL}, {50, 1, "0=1G"}, {75, 0, "0=2G"}, NOTHING,
		NOTHING, NOTHING, {75, 0, "0=2G"}},
	{"[user]", {100, 0, NULL}, {50, 1, "0=1G"}, {75, 0, "0=2G"}, {80, 2, "0=3G"}, NOTHING,
		NOTHING, {80, 2, "0=3G"}},
	{"the operator's command about the server", {100, 0, NULL}, {50, 2, "0=1G"}, NOTHING,
		{25, 1, "0=2G"}, {100, 0, "0=9G"}, NOTHING, {100, 0, "0=9G"}},
	{"each value by itself", {100, 0, "3=4G"}, {50, -1, NULL}, {0, 1, NULL}, {0, -1, "0=1G"},
		{0, -1, "1=2G"}, NOTHING, {50, 1, "0=1G,1=2G,3=4G"}},
	{"the operator removes a limit", {100, 0, NULL}, {50, 0, "0=1G,1=1G"}, {0, -1, "0=none"},
		NOTHING, NOTHING, NOTHING, {50, 0, "1=1G"}},
	{"... and sets it again", {100, 0, NULL}, {50, 0, "0=1G"}, {0, -1, "0=none"}, NOTHING,
		{0, -1, "0=2G"}, NOTHING, {50, 0, "0=2G"}},
	{"a wish without a bound", {100, 0, NULL}, NOTHING, NOTHING, NOTHING, NOTHING,
		{50, 1, "0=1G"}, {50, 1, "0=1G"}},
	{"a wish below the bound", {100, 0, NULL}, {50, 1, "0=2G"}, NOTHING, NOTHING, NOTHING,
		{25, 2, "0=1G"}, {25, 2, "0=1G"}},
	{"a wish equal to the bound", {100, 0, NULL}, {50, 1, "0=2G"}, NOTHING, NOTHING, NOTHING,
		{50, 1, "0=2G"}, {50, 1, "0=2G"}},
	{"a wish above the bound of the environment", {50, 1, "0=2G"}, NOTHING, NOTHING, NOTHING,
		NOTHING, {100, 0, "0=3G"}, {50, 1, "0=2G"}},
	{"... of [default]", {100, 0, NULL}, {25, 2, "0=1G"}, NOTHING, NOTHING, NOTHING,
		{100, 0, "0=none"}, {25, 2, "0=1G"}},
	{"... of a command about the defaults", {100, 0, NULL}, NOTHING, {25, 2, "0=1G"}, NOTHING,
		NOTHING, {100, 0, "0=none"}, {25, 2, "0=1G"}},
	{"... of [user]", {100, 0, NULL}, NOTHING, NOTHING, {25, 2, "0=1G"}, NOTHING,
		{100, 0, "0=none"}, {25, 2, "0=1G"}},
	{"... of the operator's command about the server", {100, 0, NULL}, NOTHING, NOTHING,
		NOTHING, {25, 2, "0=1G"}, {100, 0, "0=none"}, {25, 2, "0=1G"}},
	{"the bound is raised above the wish", {100, 0, NULL}, {25, 2, "0=1G"}, NOTHING, NOTHING,
		{100, 0, "0=none"}, {50, 1, "0=2G"}, {50, 1, "0=2G"}},
	{"a wish about another GPU", {100, 0, NULL}, {100, 0, "0=1G"}, NOTHING, NOTHING, NOTHING,
		{0, -1, "1=1G"}, {100, 0, "0=1G,1=1G"}},
	{"a group", NOTHING, NOTHING, NOTHING, {50, -1, "0=1G"}, {0, 2, "0=2G"}, NOTHING,
		{50, 2, "0=2G"}},
};

static void test_fold(void **state)
{
	const struct fold_row *row = *state;
	const struct says *const says[LAYERS] = {
		[LAYER_ENVIRONMENT] = &row->environment,
		[LAYER_DEFAULT] = &row->file,
		[LAYER_DEFAULT_COMMAND] = &row->command,
		[LAYER_SECTION] = &row->section,
		[LAYER_COMMAND] = &row->of_server,
		[LAYER_WISH] = &row->wish,
	};
	const struct settings *layers[LAYERS];
	struct settings all[LAYERS], settings;

	for (enum layer layer = 0; layer < LAYERS; layer++) {
		all[layer] = settings_of(says[layer]);
		layers[layer] = &all[layer];
	}
	settings = settings_fold(layers, &no_devices);
	check(&settings, &row->want);
}

/* A layer that does not exist sets nothing. */
static void test_absent_layers(_unused_ void **state)
{
	const struct settings environment = settings_of(&(struct says){50, 1, "0=1G"});
	const struct settings *layers[LAYERS] = {[LAYER_ENVIRONMENT] = &environment};
	const struct settings settings = settings_fold(layers, &no_devices);

	check(&settings, &(struct says){50, 1, "0=1G"});
}

/* Names that mean the same GPU are one limit, whichever layer uses which name. */
static void test_names(_unused_ void **state)
{
	static struct frame_device gpu = {.n_devices = 1, .pci_bus_id = "0000:A1:00.0"};
	const struct devices devices = {.n = 1, .items = &gpu};
	struct settings bound = settings_of(&(struct says){100, 0, NULL});
	struct settings wish = settings_of(&(struct says)NOTHING);
	const struct settings *layers[LAYERS] = {[LAYER_DEFAULT] = &bound, [LAYER_WISH] = &wish};
	struct settings settings;

	settings_set_memory(&bound, &no_devices, "a1:00.0", GIB);
	settings_set_memory(&wish, &no_devices, "0", 2 * GIB);
	settings = settings_fold(layers, &devices);
	assert_int_equal(settings.n_memory, 1);
	assert_int_equal(settings_get_memory(&settings, &devices, "0"), GIB);
	settings_set_memory(&wish, &no_devices, "0", GIB / 2);
	settings = settings_fold(layers, &devices);
	assert_int_equal(settings.n_memory, 1);
	assert_int_equal(settings_get_memory(&settings, &devices, "a1:00.0"), GIB / 2);
}

/* ---- a reload */

static const struct take_row {
	const char *about;
	struct says settings, from, mentioned, want;
} take_rows[] = {
	{"the file mentions nothing", {30, 2, "0=1G"}, NOTHING, NOTHING, {30, 2, "0=1G"}},
	{"the file mentions all", {30, 2, "0=1G"}, NOTHING, {50, 0, "0=2G"}, NOTHING},
	{"the file mentions the share", {30, 2, "0=1G"}, NOTHING, {50, -1, NULL}, {0, 2, "0=1G"}},
	{"the file mentions the priority", {30, 2, "0=1G"}, NOTHING, {0, 0, NULL},
		{30, -1, "0=1G"}},
	{"the file mentions a GPU", {30, 2, "0=1G,1=3G"}, NOTHING, {0, -1, "0=2G"},
		{30, 2, "1=3G"}},
	{"the file mentions a GPU without a command", {30, 2, "1=3G"}, NOTHING, {0, -1, "0=2G"},
		{30, 2, "1=3G"}},
	{"others are taken over", {30, 2, "0=1G,1=1G"}, {20, 1, "0=2G,2=5G"}, {50, 0, "0=9G,1=9G"},
		{20, 1, "0=2G"}},
};

static void test_take(void **state)
{
	const struct take_row *row = *state;
	struct settings settings = settings_of(&row->settings);
	const struct settings from = settings_of(&row->from);
	const struct settings mentioned = settings_of(&row->mentioned);

	settings_take(&settings, &from, &mentioned, &no_devices);
	check(&settings, &row->want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_absent_layers),
		cmocka_unit_test(test_names),
	};
	int n_failed = cmocka_run_group_tests(tests, NULL, NULL);

	n_failed +=
		rows_run("fold", test_fold, fold_rows, sizeof(*fold_rows), ARRAY_SIZE(fold_rows));
	n_failed +=
		rows_run("take", test_take, take_rows, sizeof(*take_rows), ARRAY_SIZE(take_rows));
	return n_failed;
}
