/* SPDX-License-Identifier: Apache-2.0 */
#ifndef XID_H
#define XID_H

/*
 * What the NVIDIA kernel driver writes into the kernel's log of a fault:
 *
 *   6,1234,56789,-;NVRM: Xid (PCI:0000:06:00): 31, pid=4711, name=mps-server,
 *   channel 0x00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0
 *   faulted @ 0x2000_00001000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ
 *
 * on one line; each part may be missing. Every program that may write to the
 * log can write such a line, so it only affects messages, and which programs
 * have to wait.
 */

#include <sys/types.h>

#include "base.h"

/* Of an exception in a kernel, such as a trap or a wrong instruction: it has no address. */
#define XID_EXCEPTION 13

struct xid {
	uint32_t number; /* 31 for an address */
	pid_t pid;       /* 0: not given */
	bool is_server;  /* the process has the name of a server */
	bool has_gpu;    /* the following are set: */
	uint32_t domain;
	uint8_t bus, device;
	uint64_t address; /* 0: not given */
};

/* Parses a record without its newline. False: it is not an Xid, or incomplete. */
bool xid_parse(const char *record, struct xid *ret_xid);

/* Whether it is about the GPU with that PCI bus id, "0000:06:00.0". */
bool xid_is_of(const struct xid *xid, const char *pci_bus_id);

#endif
