/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VISIBLE_H
#define VISIBLE_H

/*
 * CUDA_VISIBLE_DEVICES: a list of ordinals, UUIDs, or beginnings of UUIDs. The
 * first entry that names no GPU ends the list. No GPU may be named twice.
 * CUDA_DEVICE_ORDER defines the order of the ordinals.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layout.h"

#define VISIBLE_TWICE UINT32_MAX

struct visible_gpu {
	uint8_t uuid[16];      /* GPU-... */
	uint8_t part_uuid[16]; /* MIG-..., if it is a part of a GPU; otherwise the same */
	int32_t pci[3];        /* domain, bus, device */
	unsigned index;        /* chosen by the caller */
};

/* Whether `text' is a beginning of the UUID in the form 8-4-4-4-12, in upper or lower case. */
bool visible_uuid_begins(const uint8_t uuid[16], const char *text, size_t length);

/* Parses a PCI ID: [domain]:[bus]:[device].[function]; domain and function are optional. */
bool visible_parse_pci(const char *text, unsigned ret_pci[3]);

/*
 * Sorts the GPUs from the driver's order into the order of the program's ordinals:
 * by PCI ID if `value' is PCI_BUS_ID.
 */
void visible_order(const char *value, struct visible_gpu *gpus, unsigned n_gpus);

/*
 * Writes the indices of the selected GPUs in the order of the list, and returns
 * their number, or VISIBLE_TWICE. `value' NULL: selects all.
 */
unsigned visible_parse(const char *value, const struct visible_gpu *gpus, unsigned n_gpus,
	unsigned ret_chosen[DEVICES_MAX]);

#endif
