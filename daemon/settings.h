/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SETTINGS_H
#define SETTINGS_H

/*
 * Settings of the operator for clients: the defaults, those of a server, those
 * of a group.
 *
 * A memory limit keeps the name of its GPU: the UUID if the GPUs were known
 * when it was set, else the given name, which is looked up among the GPUs of
 * the client's server. Loop thread.
 */

#include "device_name.h"
#include "devices.h"
#include "error_message.h"

#define PRIORITY_MAX 2
#define PRIORITY_ACCEPTED "must be 0 (normal), 1 (below normal) or 2 (background)"

#define MEMORY_ALL UINT64_MAX

struct memory_limit {
	char device[DEVICE_NAME_MAX];
	uint64_t bytes;
};

struct settings {
	uint32_t active_threads; /* thousandths of a percent; 0: not set */
	int32_t priority;        /* negative: not set */
	unsigned n_memory;
	struct memory_limit memory[DEVICES_MAX];
};

/* Nothing is set. */
void settings_init(struct settings *settings);

/*
 * The daemon's initial settings: no limits, except those of
 * CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT and
 * CUDA_MPS_CLIENT_PRIORITY. 0 or -EINVAL with an error message.
 */
int settings_load(struct settings *settings, struct error_message *error);

/* The initial settings of a new server, from the defaults. It has no client priority of its own. */
struct settings settings_of_server(const struct settings *defaults);

/* `bytes' may be MEMORY_ALL, which removes the limit. `devices' are the known GPUs, if any. */
int settings_set_memory(
	struct settings *settings, const struct devices *devices, const char *name, uint64_t bytes);

/* MEMORY_ALL if there is no limit. */
uint64_t settings_get_memory(
	const struct settings *settings, const struct devices *devices, const char *name);

/* 0 or -EINVAL. */
int parse_priority(const char *text, int32_t *ret_priority);

/* "33.3" */
#define PERCENTAGE_TEXT 16
void format_percentage(uint32_t thousandths, char *text, size_t size);

/* No limits. */
void limits_init(struct frame_limits *limits);

/* Lowers `limits' to the settings for the GPUs of a server. */
void settings_lower(const struct settings *settings, const struct devices *devices,
	struct frame_limits *limits);

#endif
