/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Parses CUDA_MPS_PINNED_DEVICE_MEM_LIMIT. At the start of the process.
 *
 * Invariant: uses only the devices that are passed in.
 */

#include "memory_limit.h"

#include <string.h>

#include "limit_text.h"
#include "client/util/log.h"

/* Longer than a UUID, a size, and blanks between them. */
#define ENTRY_MAX 128

/* Only digits; `n_gpus': not an ordinal of these GPUs. */
static unsigned limit_find_ordinal(const char *name, unsigned n_gpus)
{
	unsigned ordinal = 0;

	if (!*name)
		return n_gpus;
	for (; *name; name++) {
		if (*name < '0' || *name > '9')
			return n_gpus;
		ordinal = ordinal * 10 + (unsigned)(*name - '0');
		if (ordinal >= n_gpus)
			return n_gpus;
	}
	return ordinal;
}

static unsigned limit_find_bus_id(const char *name, const struct visible_gpu *gpus, unsigned n_gpus)
{
	unsigned pci[3], i = 0;

	if (!visible_parse_pci(name, pci))
		return n_gpus;
	while (i < n_gpus &&
		(gpus[i].pci[0] != (int32_t)pci[0] || gpus[i].pci[1] != (int32_t)pci[1] ||
			gpus[i].pci[2] != (int32_t)pci[2]))
		i++;
	return i;
}

static unsigned limit_find_uuid(const char *name, const struct visible_gpu *gpus, unsigned n_gpus)
{
	bool is_part = strncmp(name, "MIG-", 4) == 0;
	unsigned found = n_gpus;

	name += 4;
	for (unsigned i = 0; *name && i < n_gpus; i++) {
		const uint8_t *uuid = is_part ? gpus[i].part_uuid : gpus[i].uuid;

		if (!visible_uuid_begins(uuid, name, strlen(name)))
			continue;
		if (found != n_gpus)
			return n_gpus;
		found = i;
	}
	return found;
}

static unsigned limit_find_gpu(const char *name, const struct visible_gpu *gpus, unsigned n_gpus)
{
	if (strncmp(name, "GPU-", 4) == 0 || strncmp(name, "MIG-", 4) == 0)
		return limit_find_uuid(name, gpus, n_gpus);
	if (strchr(name, ':'))
		return limit_find_bus_id(name, gpus, n_gpus);
	return limit_find_ordinal(name, n_gpus);
}

/* Removes leading and trailing blanks. */
static char *trim_blanks(char *text)
{
	size_t length;

	text += strspn(text, " \t");
	length = strlen(text);
	while (length > 0 && strchr(" \t", text[length - 1]))
		length--;
	text[length] = '\0';
	return text;
}

static void parse_entry(
	char *entry, const struct visible_gpu *gpus, unsigned n_gpus, uint64_t limits[DEVICES_MAX])
{
	char *text = trim_blanks(entry), *size = strchr(text, '=');
	uint64_t bytes;
	unsigned gpu;

	if (!size) {
		log_warn("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: \"%s\" is ignored: an entry must be "
			 "GPU=SIZE, such as 0=1G",
			text);
		return;
	}
	*size++ = '\0';
	gpu = limit_find_gpu(trim_blanks(text), gpus, n_gpus);
	if (parse_size(trim_blanks(size), &bytes) < 0)
		log_warn("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: \"%s=%s\" is ignored: the size must be "
			 "%s",
			text, size, SIZE_ACCEPTED);
	else if (gpu == n_gpus)
		log_warn(
			"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: \"%s=%s\" is ignored: this process "
			"sees no such GPU (it sees %u). Name a GPU by its ordinal from 0, its UUID "
			"(GPU-...), a unique beginning of its UUID, or its PCI ID",
			text, size, n_gpus);
	else
		limits[gpu] = MIN(limits[gpu], bytes);
}

void memory_limits_parse(const char *value, const struct visible_gpu *gpus, unsigned n_gpus,
	uint64_t ret_limits[DEVICES_MAX])
{
	for (unsigned i = 0; i < n_gpus; i++)
		ret_limits[i] = UINT64_MAX;
	while (value && *value) {
		size_t length = strcspn(value, ",");
		char entry[ENTRY_MAX];

		if (length >= sizeof(entry))
			log_warn("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: an entry of %zu bytes is "
				 "ignored: an entry must be GPU=SIZE, such as 0=1G",
				length);
		if (length > 0 && length < sizeof(entry)) {
			memcpy(entry, value, length);
			entry[length] = '\0';
			parse_entry(entry, gpus, n_gpus, ret_limits);
		}
		value += length + (value[length] == ',');
	}
}
