/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Parses Xid lines. Any thread.
 *
 * Invariant: nothing is read after the record's NUL, whatever the record
 * contains.
 */

#include "xid.h"

#include <stdio.h>
#include <string.h>

#define MARK "NVRM: Xid (PCI:"
/* As /proc/PID/comm has it: 15 characters. */
#define SERVER_NAMES                                                                               \
	{                                                                                          \
		"mps-server", "nvidia-cuda-mps"                                                    \
	}

/* Parses a number of at most `digits_max' digits; NULL: no number, or a longer one. */
static const char *xid_parse_number(
	const char *text, unsigned base, unsigned digits_max, uint64_t *ret_number)
{
	static const char digits[] = "0123456789abcdef";
	uint64_t number = 0;
	unsigned n;

	for (n = 0; text[n]; n++) {
		char c = (char)(text[n] >= 'A' && text[n] <= 'F' ? text[n] + 'a' - 'A' : text[n]);
		const char *digit = memchr(digits, c, base);

		if (!digit)
			break;
		if (n == digits_max)
			return NULL;
		number = number * base + (uint64_t)(digit - digits);
	}
	if (n == 0)
		return NULL;
	*ret_number = number;
	return text + n;
}

static const char *xid_skip_text(const char *text, const char *expected)
{
	size_t length = strlen(expected);

	return text && strncmp(text, expected, length) == 0 ? text + length : NULL;
}

/* "0000:06:00): 31", with or without a function after the device. */
static const char *xid_parse_head(const char *text, struct xid *xid)
{
	uint64_t domain, bus, device, number;

	text = xid_parse_number(text, 16, 8, &domain);
	text = xid_skip_text(text, ":");
	text = text ? xid_parse_number(text, 16, 2, &bus) : NULL;
	text = xid_skip_text(text, ":");
	text = text ? xid_parse_number(text, 16, 2, &device) : NULL;
	if (!text)
		return NULL;
	text += strcspn(text, ")");
	text = xid_skip_text(text, "): ");
	text = text ? xid_parse_number(text, 10, 9, &number) : NULL;
	if (!text)
		return NULL;
	xid->has_gpu = true;
	xid->domain = (uint32_t)domain;
	xid->bus = (uint8_t)bus;
	xid->device = (uint8_t)device;
	xid->number = (uint32_t)number;
	return text;
}

static void xid_parse_process(const char *text, struct xid *xid)
{
	static const char *const names[] = SERVER_NAMES;
	const char *pid = strstr(text, "pid="), *name = strstr(text, "name=");
	uint64_t number;

	if (pid && xid_parse_number(pid + strlen("pid="), 10, 9, &number))
		xid->pid = (pid_t)number;
	for (size_t i = 0; name && i < ARRAY_SIZE(names); i++)
		xid->is_server |= xid_skip_text(name + strlen("name="), names[i]) != NULL;
}

/* "faulted @ 0x7f12_34567000": the upper and the lower 32 bits. */
static void xid_parse_address(const char *text, struct xid *xid)
{
	const char *at = strstr(text, "faulted @ 0x");
	uint64_t upper, lower;

	if (!at)
		return;
	at = xid_parse_number(at + strlen("faulted @ 0x"), 16, 8, &upper);
	at = xid_skip_text(at, "_");
	if (at && xid_parse_number(at, 16, 8, &lower))
		xid->address = upper << 32 | lower;
}

bool xid_parse(const char *record, struct xid *ret_xid)
{
	const char *text = strstr(record, MARK);
	struct xid xid = {0};

	text = text ? xid_parse_head(text + strlen(MARK), &xid) : NULL;
	if (!text)
		return false;
	xid_parse_process(text, &xid);
	xid_parse_address(text, &xid);
	*ret_xid = xid;
	return true;
}

bool xid_is_of(const struct xid *xid, const char *pci_bus_id)
{
	uint64_t domain, bus, device;
	const char *text = xid_parse_number(pci_bus_id, 16, 8, &domain);

	text = xid_skip_text(text, ":");
	text = text ? xid_parse_number(text, 16, 2, &bus) : NULL;
	text = xid_skip_text(text, ":");
	text = text ? xid_parse_number(text, 16, 2, &device) : NULL;
	return text && xid->has_gpu && xid->domain == domain && xid->bus == bus &&
	       xid->device == device;
}
