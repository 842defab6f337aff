/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VIRTUAL_H
#define VIRTUAL_H

/*
 * Memory that a program maps itself: regions of addresses, allocations without an address,
 * and mappings. The session's worker only.
 */

#include "base.h"

struct device;
struct session;

/* Whether all these bytes, in a region of the session, are mapped with some access. */
bool virtual_has(const struct session *session, uint64_t address, uint64_t size);

/* The GPU whose memory is mapped there; NULL: no mapping. */
const struct device *virtual_device(const struct session *session, uint64_t address);

/* A descriptor of these bytes, for which virtual_has() is true, goes to the client. */
void virtual_set_exported(struct session *session, uint64_t address, uint64_t size);

/* Ends the closing mappings whose work is done. */
void virtual_poll(struct session *session);

#endif
