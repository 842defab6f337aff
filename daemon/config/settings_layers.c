/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Folds the layers of settings. Loop thread, and main() before the loop.
 *
 * Invariant: no layer of a user raises what the layers of the operator allow.
 */

#include "settings.h"

static void take_memory(struct settings *settings, const struct settings *from,
	const struct devices *devices, const char *name)
{
	const struct memory_limit *limit = settings_find_memory(from, devices, name);

	/* There is space: each layer names real GPUs, of which there are DEVICES_MAX at most. */
	if (limit)
		(void)settings_set_memory(settings, devices, name, limit->bytes);
	else
		settings_unset_memory(settings, devices, name);
}

void settings_take(struct settings *settings, const struct settings *from,
	const struct settings *about, const struct devices *devices)
{
	if (setting_is_set(about, SETTING_ACTIVE_THREADS))
		settings->active_threads = from->active_threads;
	if (setting_is_set(about, SETTING_PRIORITY))
		settings->priority = from->priority;
	if (setting_is_set(about, SETTING_OVERSUBSCRIBE))
		settings->oversubscribe = from->oversubscribe;
	if (setting_is_set(about, SETTING_SOFT_LIMIT))
		settings->soft_limit = from->soft_limit;
	for (unsigned i = 0; i < about->n_memory; i++)
		take_memory(settings, from, devices, about->memory[i].device);
}

static void lower_to_wish(
	struct settings *settings, const struct settings *wish, const struct devices *devices)
{
	if (setting_is_set(wish, SETTING_ACTIVE_THREADS))
		settings->active_threads = MIN(settings->active_threads, wish->active_threads);
	/* The larger number is the lower priority; -1 is no wish. */
	settings->priority = MAX(settings->priority, wish->priority);
	for (unsigned i = 0; i < wish->n_memory; i++) {
		const struct memory_limit *limit = &wish->memory[i];
		uint64_t bound = settings_get_memory(settings, devices, limit->device);

		if (limit->bytes < bound)
			(void)settings_set_memory(settings, devices, limit->device, limit->bytes);
	}
}

static void remove_unlimited(struct settings *settings)
{
	unsigned n = 0;

	for (unsigned i = 0; i < settings->n_memory; i++)
		if (settings->memory[i].bytes != MEMORY_ALL)
			settings->memory[n++] = settings->memory[i];
	settings->n_memory = n;
}

struct settings settings_fold(
	const struct settings *const layers[LAYERS], const struct devices *devices)
{
	struct settings settings;

	settings_init(&settings);
	for (enum layer layer = LAYER_ENVIRONMENT; layer < LAYER_WISH; layer++)
		if (layers[layer])
			settings_take(&settings, layers[layer], layers[layer], devices);
	if (layers[LAYER_WISH])
		lower_to_wish(&settings, layers[LAYER_WISH], devices);
	remove_unlimited(&settings);
	return settings;
}
