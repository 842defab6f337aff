/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VISIBLE_H
#define VISIBLE_H

/*
 * CUDA_VISIBLE_DEVICES: a list of ordinals, UUIDs or beginnings of UUIDs. What
 * comes after the first entry that names no GPU is not seen; no GPU may be named
 * twice. CUDA_DEVICE_ORDER says what the ordinals count.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"

#define VISIBLE_TWICE UINT32_MAX

struct visible_gpu {
	uint8_t uuid[16];      /* GPU-... */
	uint8_t part_uuid[16]; /* MIG-..., if it is but a part of a GPU; else the same */
	int32_t place[3];      /* domain, bus, device */
	unsigned index;        /* whatever the caller calls it */
};

/* Whether `text' is the beginning of the UUID in its 8-4-4-4-12 form, in either case. */
bool visible_uuid_begins(const uint8_t uuid[16], const char *text, size_t length);

/* Reads a PCI id: [domain]:[bus]:[device].[function], domain and function optional. */
bool visible_parse_place(const char *text, unsigned ret_place[3]);

/*
 * Puts the GPUs, which come in the driver's own order, into that in which the program
 * counts them: by their place on the bus if `value' is PCI_BUS_ID.
 */
void visible_order(const char *value, struct visible_gpu *gpus, unsigned n_gpus);

/*
 * Writes which of the `n_gpus' are chosen, in the order of the list, and returns
 * how many, or VISIBLE_TWICE. `value' NULL: all of them.
 */
unsigned visible_parse(const char *value, const struct visible_gpu *gpus, unsigned n_gpus,
	unsigned ret_chosen[DEVICES_MAX]);

#endif
