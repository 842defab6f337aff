/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Parses CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER. Any thread.
 *
 * Invariant: uses only the devices that are passed in.
 */

#include "visible.h"

#include <string.h>

#define UUID_TEXT 36

static const char hex[] = "0123456789abcdef";

/* Writes the 8-4-4-4-12 form. */
static void uuid_format(const uint8_t uuid[16], char ret_text[UUID_TEXT])
{
	for (unsigned i = 0; i < 16; i++) {
		*ret_text++ = hex[uuid[i] >> 4];
		*ret_text++ = hex[uuid[i] & 15];
		if (i == 3 || i == 5 || i == 7 || i == 9)
			*ret_text++ = '-';
	}
}

bool visible_uuid_begins(const uint8_t uuid[16], const char *text, size_t length)
{
	char whole[UUID_TEXT];

	if (length > UUID_TEXT)
		return false;
	uuid_format(uuid, whole);
	for (size_t i = 0; i < length; i++) {
		char c = text[i];

		if (c >= 'A' && c <= 'F')
			c = (char)(c - 'A' + 'a');
		if (c != whole[i])
			return false;
	}
	return true;
}

/* The only GPU, or the only part of a GPU, whose UUID begins so. `n_gpus': no match, or several. */
static unsigned visible_find_uuid(const char *text, size_t length, const struct visible_gpu *gpus,
	unsigned n_gpus, bool is_part)
{
	unsigned found = n_gpus;

	for (unsigned i = 0; i < n_gpus; i++) {
		const struct visible_gpu *gpu = &gpus[i];

		/* A GPU without parts has the same UUID under both names. */
		if (is_part && !memcmp(gpu->uuid, gpu->part_uuid, sizeof(gpu->uuid)))
			continue;
		if (!visible_uuid_begins(is_part ? gpu->part_uuid : gpu->uuid, text, length))
			continue;
		if (found != n_gpus)
			return n_gpus;
		found = i;
	}
	return found;
}

/* Parses as strtoul() does, which the driver seems to use: "1gpu" is 1, " +1" too. */
static unsigned visible_find_ordinal(const char *text, size_t length, unsigned n_gpus)
{
	unsigned ordinal = 0;
	size_t i = 0;

	while (i < length && text[i] == ' ')
		i++;
	if (i < length && text[i] == '+')
		i++;
	if (i == length || text[i] < '0' || text[i] > '9')
		return n_gpus;
	for (; i < length && text[i] >= '0' && text[i] <= '9'; i++) {
		ordinal = ordinal * 10 + (unsigned)(text[i] - '0');
		if (ordinal >= n_gpus)
			return n_gpus;
	}
	return ordinal;
}

static unsigned visible_find_gpu(
	const char *entry, size_t length, const struct visible_gpu *gpus, unsigned n_gpus)
{
	while (length > 0 && entry[length - 1] == ' ')
		length--;
	if (length > 4 && !strncmp(entry, "GPU-", 4))
		return visible_find_uuid(entry + 4, length - 4, gpus, n_gpus, false);
	if (length > 4 && !strncmp(entry, "MIG-", 4))
		return visible_find_uuid(entry + 4, length - 4, gpus, n_gpus, true);
	return visible_find_ordinal(entry, length, n_gpus);
}

static bool is_before(const struct visible_gpu *a, const struct visible_gpu *b)
{
	for (unsigned i = 0; i < 3; i++)
		if (a->pci[i] != b->pci[i])
			return a->pci[i] < b->pci[i];
	return false;
}

void visible_order(const char *value, struct visible_gpu *gpus, unsigned n_gpus)
{
	if (!value || strcmp(value, "PCI_BUS_ID") != 0)
		return;
	for (unsigned i = 1; i < n_gpus; i++) {
		struct visible_gpu gpu = gpus[i];
		unsigned at = i;

		for (; at > 0 && is_before(&gpu, &gpus[at - 1]); at--)
			gpus[at] = gpus[at - 1];
		gpus[at] = gpu;
	}
}

unsigned visible_parse(const char *value, const struct visible_gpu *gpus, unsigned n_gpus,
	unsigned ret_chosen[DEVICES_MAX])
{
	bool is_chosen[DEVICES_MAX] = {false};
	unsigned n = 0;

	if (!value) {
		for (; n < n_gpus; n++)
			ret_chosen[n] = n;
		return n;
	}
	for (;;) {
		size_t length = strcspn(value, ",");
		unsigned gpu = visible_find_gpu(value, length, gpus, n_gpus);

		if (gpu == n_gpus)
			return n;
		if (is_chosen[gpu])
			return VISIBLE_TWICE;
		is_chosen[gpu] = true;
		ret_chosen[n++] = gpu;
		if (!value[length])
			return n;
		value += length + 1;
	}
}

static bool hex_next(const char **text, unsigned *ret_value)
{
	const char *start = *text;
	unsigned value = 0;

	for (; *text - start < 8; (*text)++) {
		char c = **text;

		if (c >= '0' && c <= '9')
			value = value << 4 | (unsigned)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			value = value << 4 | (unsigned)((c | 0x20) - 'a' + 10);
		else
			break;
	}
	*ret_value = value;
	return *text != start;
}

bool visible_parse_pci(const char *text, unsigned ret_pci[3])
{
	unsigned part[3] = {0}, function;
	unsigned n = 0;

	do
		if (!hex_next(&text, &part[n++]))
			return false;
	while (n < 3 && *text == ':' && text++);
	if (n < 2)
		return false;
	if (*text == '.') {
		text++;
		if (!hex_next(&text, &function) || function != 0)
			return false;
	}
	ret_pci[0] = n == 3 ? part[0] : 0;
	ret_pci[1] = part[n - 2];
	ret_pci[2] = part[n - 1];
	return *text == '\0';
}
