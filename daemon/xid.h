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
 * on one line; each part may be missing. Anybody who may write to the log can
 * write such a line, so nothing follows from one but words for people and who
 * has to wait.
 */

#include <sys/types.h>

#include "base.h"

struct xid {
	uint32_t number; /* 31 for an address */
	pid_t pid;       /* 0: it does not tell */
	bool is_server;  /* by its name, the process is a server */
	bool has_gpu;    /* the following tell which GPU: */
	uint32_t domain;
	uint8_t bus, device;
	uint64_t address; /* 0: it tells none */
};

/* Takes a record, without its newline. False: it is something else, or no whole one. */
bool xid_parse(const char *record, struct xid *ret_xid);

/* Whether it is of the GPU with that PCI bus id, "0000:06:00.0". */
bool xid_is_of(const struct xid *xid, const char *pci_bus_id);

#endif
