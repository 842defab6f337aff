/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names of GPUs. Any thread; uses only its arguments.
 *
 * Invariant: a name has one meaning: with a colon it is a PCI ID, with up to
 * three digits an ordinal, otherwise a UUID.
 */

#include "device_name.h"

#include <string.h>
#include <strings.h>

/* A name with more digits than an ordinal is the beginning of a UUID. */
#define ORDINAL_DIGITS 3

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool parse_ordinal(const char *name, unsigned *ret_ordinal)
{
	size_t n = strspn(name, "0123456789");

	if (n == 0 || n > ORDINAL_DIGITS || name[n])
		return false;
	*ret_ordinal = (unsigned)strtoul(name, NULL, 10);
	return true;
}

/* Domain, bus, device and function. The first and the last may be missing, and are then 0. */
static bool parse_pci(const char *name, unsigned long field[4])
{
	unsigned long number[4] = {0};
	size_t n = 0;

	for (;; name++) {
		char *end;

		if (n == ARRAY_SIZE(number) || !is_hex(*name))
			return false;
		number[n++] = strtoul(name, &end, 16);
		if (end - name > 8)
			return false;
		name = end;
		if (!*name)
			break;
		if (*name != ':' && *name != '.')
			return false;
	}
	if (n < 2)
		return false;
	memset(field, 0, 4 * sizeof(*field));
	memcpy(n == 4 ? field : field + 1, number, n * sizeof(*number));
	return true;
}

static bool is_same_pci(const char *name, const char *pci_bus_id)
{
	unsigned long wanted[4], field[4];

	return parse_pci(name, wanted) && parse_pci(pci_bus_id, field) &&
	       memcmp(wanted, field, sizeof(field)) == 0;
}

/* The digits and dashes of a UUID. */
static const char *skip_prefix(const char *name)
{
	bool has_prefix = strncasecmp(name, "GPU-", 4) == 0 || strncasecmp(name, "MIG-", 4) == 0;

	return has_prefix ? name + 4 : name;
}

/* A UUID's 32 digits, with dashes or without. */
static bool begins_uuid(const char *name, const uint8_t uuid[16])
{
	static const char digits[] = "0123456789abcdef";
	const char *c = skip_prefix(name);
	bool has_dashes = strchr(c, '-') != NULL;

	for (size_t i = 0; i < 32 && *c; i++) {
		char digit = digits[i % 2 == 0 ? uuid[i / 2] >> 4 : uuid[i / 2] & 15];

		if (has_dashes && (i == 8 || i == 12 || i == 16 || i == 20) && *c++ != '-')
			return false;
		/* The beginning of a UUID may end with a dash. */
		if (!*c)
			return true;
		if (strncasecmp(c, &digit, 1) != 0)
			return false;
		c++;
	}
	return !*c && *skip_prefix(name);
}

bool device_name_ok(const char *name)
{
	unsigned long field[4];
	unsigned ordinal;
	const char *digits = skip_prefix(name);

	if (strlen(name) >= DEVICE_NAME_MAX)
		return false;
	if (parse_ordinal(name, &ordinal))
		return ordinal < DEVICES_MAX;
	if (strchr(name, ':'))
		return parse_pci(name, field);
	return *digits && strspn(digits, "0123456789abcdefABCDEF-") == strlen(digits) &&
	       is_hex(*digits);
}

bool device_name_matches(const char *name, const struct frame_device *device)
{
	unsigned ordinal;

	if (!device_name_ok(name))
		return false;
	if (parse_ordinal(name, &ordinal))
		return ordinal == device->ordinal;
	if (strchr(name, ':'))
		return is_same_pci(name, device->pci_bus_id);
	return begins_uuid(name, device->uuid);
}
