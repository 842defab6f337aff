/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Folds the layers of settings. Loop thread, and main() before the loop.
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
	for (unsigned i = 0; i < about->n_memory; i++)
		take_memory(settings, from, devices, about->memory[i].device);
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
	for (enum layer layer = LAYER_ENVIRONMENT; layer < LAYERS; layer++)
		if (layers[layer])
			settings_take(&settings, layers[layer], layers[layer], devices);
	remove_unlimited(&settings);
	return settings;
}
