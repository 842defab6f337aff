/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Parses Xid lines. Any thread.
 *
 * Invariant: nothing is read after the record's NUL, whatever the record
 * contains.
 */

#include "xid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "NVRM: Xid (PCI:"
/* As /proc/PID/comm has it: 15 characters. */
static const char *const server_names[] = {"mps-server", "nvidia-cuda-mps"};

static bool parse_gpu(const char *text, struct xid *xid)
{
	unsigned bus, device;

	if (sscanf(text, "%8x:%2x:%2x", &xid->domain, &bus, &device) != 3)
		return false;
	xid->bus = (uint8_t)bus;
	xid->device = (uint8_t)device;
	return true;
}

static void parse_process(const char *text, struct xid *xid)
{
	const char *pid = strstr(text, "pid="), *name = strstr(text, "name=");
	char digits[11];

	/* A longer number is no PID. */
	if (pid && sscanf(pid, "pid=%10[0-9]", digits) == 1 && strlen(digits) < 10)
		xid->pid = atoi(digits);
	for (size_t i = 0; name && i < ARRAY_SIZE(server_names); i++)
		xid->is_server |= strncmp(name + strlen("name="), server_names[i],
					  strlen(server_names[i])) == 0;
}

/* "faulted @ 0x7f12_34567000": the upper and the lower 32 bits. */
static void parse_address(const char *text, struct xid *xid)
{
	const char *at = strstr(text, "faulted @ 0x");
	unsigned upper, lower;

	if (at && sscanf(at, "faulted @ 0x%8x_%8x", &upper, &lower) == 2)
		xid->address = (uint64_t)upper << 32 | lower;
}

/* After the mark: "0000:06:00): 31, pid=...", with or without a function after the device. */
bool xid_parse(const char *record, struct xid *ret_xid)
{
	const char *text = strstr(record, MARK);
	struct xid xid = {.has_gpu = true};

	if (!text || !parse_gpu(text + strlen(MARK), &xid))
		return false;
	text += strcspn(text, ")");
	if (sscanf(text, "): %9u", &xid.number) != 1)
		return false;
	parse_process(text, &xid);
	parse_address(text, &xid);
	*ret_xid = xid;
	return true;
}

bool xid_is_of(const struct xid *xid, const char *pci_bus_id)
{
	struct xid gpu;

	return parse_gpu(pci_bus_id, &gpu) && xid->has_gpu && xid->domain == gpu.domain &&
	       xid->bus == gpu.bus && xid->device == gpu.device;
}
