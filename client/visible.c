/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads CUDA_VISIBLE_DEVICES. Pure: knows no device but those it is given.
 */

#include <string.h>

#include "visible.h"

#define UUID_TEXT 36

static const char hex[] = "0123456789abcdef";

/* The 8-4-4-4-12 form. */
static void uuid_format(const uint8_t uuid[16], char ret_text[UUID_TEXT])
{
	for (unsigned i = 0; i < 16; i++) {
		*ret_text++ = hex[uuid[i] >> 4];
		*ret_text++ = hex[uuid[i] & 15];
		if (i == 3 || i == 5 || i == 7 || i == 9)
			*ret_text++ = '-';
	}
}

static bool uuid_begins(const uint8_t uuid[16], const char *text, size_t length)
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

/* The one GPU whose UUID begins so; `n_gpus' if it is none or several. */
static unsigned find_uuid(
	const char *text, size_t length, const uint8_t (*uuids)[16], unsigned n_gpus)
{
	unsigned found = n_gpus;

	for (unsigned i = 0; i < n_gpus; i++) {
		if (!uuid_begins(uuids[i], text, length))
			continue;
		if (found != n_gpus)
			return n_gpus;
		found = i;
	}
	return found;
}

static unsigned find_ordinal(const char *text, size_t length, unsigned n_gpus)
{
	unsigned ordinal = 0;

	if (length == 0)
		return n_gpus;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9')
			return n_gpus;
		ordinal = ordinal * 10 + (unsigned)(text[i] - '0');
		if (ordinal >= n_gpus)
			return n_gpus;
	}
	return ordinal;
}

static unsigned find_gpu(
	const char *entry, size_t length, const uint8_t (*uuids)[16], unsigned n_gpus)
{
	while (length > 0 && entry[0] == ' ') {
		entry++;
		length--;
	}
	while (length > 0 && entry[length - 1] == ' ')
		length--;
	if (length > 4 && !strncmp(entry, "GPU-", 4))
		return find_uuid(entry + 4, length - 4, uuids, n_gpus);
	return find_ordinal(entry, length, n_gpus);
}

unsigned visible_parse(const char *value, const uint8_t (*uuids)[16], unsigned n_gpus,
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
		unsigned gpu = find_gpu(value, length, uuids, n_gpus);

		if (gpu == n_gpus || is_chosen[gpu])
			return n;
		is_chosen[gpu] = true;
		ret_chosen[n++] = gpu;
		if (!value[length])
			return n;
		value += length + 1;
	}
}
