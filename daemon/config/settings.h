/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SETTINGS_H
#define SETTINGS_H

/*
 * Settings for clients. A `struct settings' is what one place sets (a section
 * of the configuration file, the commands about a server), or what counts when
 * such layers are folded (settings_layers.c).
 *
 * A memory limit keeps the name of its GPU: the UUID if the GPUs were known
 * when it was set, else the given name, which is looked up among the GPUs of
 * the client's server. Loop thread.
 */

#include "device_name.h"
#include "devices.h"
#include "daemon/text/error_message.h"

#define PRIORITY_MAX 2
#define PRIORITY_ACCEPTED "must be 0 (normal), 1 (below normal) or 2 (background)"

#define MEMORY_ALL UINT64_MAX

struct memory_limit {
	char device[DEVICE_NAME_MAX];
	uint64_t bytes; /* MEMORY_ALL: this layer removes the limit of lower layers */
};

struct settings {
	uint32_t active_threads; /* thousandths of a percent; 0: not set */
	int32_t priority;        /* negative: not set */
	uint32_t oversubscribe;  /* enum oversubscribe */
	uint64_t soft_limit;     /* bytes of each GPU; MEMORY_ALL: not set */
	unsigned n_memory;
	struct memory_limit memory[DEVICES_MAX];
};

/* The settings by their keys in the configuration file. */
enum setting {
	SETTING_ACTIVE_THREADS,
	SETTING_MEMORY,
	SETTING_PRIORITY,
	SETTING_OVERSUBSCRIBE,
	SETTING_SOFT_LIMIT,
	SETTINGS,
};

/* Nothing is set. */
#define SETTINGS_NONE                                                                              \
	{                                                                                          \
		.priority = -1, .soft_limit = MEMORY_ALL                                           \
	}
void settings_init(struct settings *settings);

/*
 * The lowest layer, which sets all but the memory: no limits, and no oversubscription, except for
 * CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT,
 * CUDA_MPS_CLIENT_PRIORITY, MPS_OVERSUBSCRIBE and MPS_SOFT_LIMIT. 0 or -EINVAL with an error
 * message.
 */
int settings_load(struct settings *settings, struct error_message *error);

const char *setting_name(enum setting setting);

/* The variable of the daemon's environment that sets the default. */
const char *setting_variable(enum setting setting);

/* Whether the environment has a value for the default, which then counts instead of the file's. */
bool setting_is_in_environment(enum setting setting);

/*
 * Reads a value of the environment or of the file. Else -EINVAL, and `error'
 * has what the setting takes: "it takes …".
 */
int settings_read(struct settings *settings, enum setting setting, const char *text,
	struct error_message *error);

/* Whether the settings set it; of memory: the limit of a GPU. */
bool setting_is_set(const struct settings *settings, enum setting setting);

/* Whether the settings set anything. */
bool settings_are_any(const struct settings *settings);

void settings_unset(struct settings *settings, enum setting setting);

/* `devices' are the known GPUs, if any. 0 or -ENOSPC. */
int settings_set_memory(
	struct settings *settings, const struct devices *devices, const char *name, uint64_t bytes);
void settings_unset_memory(
	struct settings *settings, const struct devices *devices, const char *name);

/* NULL if none is set. */
const struct memory_limit *settings_find_memory(
	const struct settings *settings, const struct devices *devices, const char *name);

/* MEMORY_ALL if there is no limit. */
uint64_t settings_get_memory(
	const struct settings *settings, const struct devices *devices, const char *name);

/* 0 or -EINVAL. */
int parse_priority(const char *text, int32_t *ret_priority);

#define SOFT_LIMIT_ACCEPTED "0, or " SIZE_ACCEPTED

/* 0 or -EINVAL. */
int parse_soft_limit(const char *text, uint64_t *ret_bytes);

/* "33.3" */
#define PERCENTAGE_TEXT 16
void format_percentage(uint32_t thousandths, char *text, size_t size);

/* No limits. */
void limits_init(struct frame_limits *limits);

/* A value as text: "50.0", "0=1G,1=512M", "2", "yes", "none". */
#define SETTING_TEXT_MAX 512
void setting_format(
	const struct settings *settings, enum setting setting, char text[SETTING_TEXT_MAX]);

/* Whether both have the same value; `devices' are the known GPUs, which may have several names. */
bool setting_is_equal(const struct settings *one, const struct settings *other,
	enum setting setting, const struct devices *devices);

/* Lowers `limits' to the settings for the GPUs of a server. */
void settings_lower(const struct settings *settings, const struct devices *devices,
	struct frame_limits *limits);

/* Soft limits do not count. */
void limits_forget_soft(struct frame_limits *limits);

/* ---- layers (settings_layers.c) */

/* Where a value for a client comes from. */
enum layer {
	LAYER_ENVIRONMENT,
	LAYER_DEFAULT,         /* the section [default] */
	LAYER_DEFAULT_COMMAND, /* the operator's commands about the defaults */
	LAYER_SECTION,         /* [user NAME] or [group NAME] */
	LAYER_COMMAND,         /* the operator's commands about the server or the group */
	LAYER_WISH,            /* commands of the server's user */
	LAYERS,
};

/*
 * What counts: each layer of the operator replaces what lower layers set, and
 * the wish of a user only lowers the result. A layer may be NULL. The result
 * has no limit of MEMORY_ALL.
 */
struct settings settings_fold(
	const struct settings *const layers[LAYERS], const struct devices *devices);

/* Each limit that `about' sets becomes what `from' sets, which may be nothing. */
void settings_take(struct settings *settings, const struct settings *from,
	const struct settings *about, const struct devices *devices);

#endif
