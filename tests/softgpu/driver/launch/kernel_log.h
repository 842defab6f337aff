/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_LOG_H
#define KERNEL_LOG_H

/*
 * The fault reports that the NVIDIA kernel driver writes to the machine's kernel
 * log. Here they go to the file in SOFTGPU_KERNEL_LOG: one record of /dev/kmsg, in
 * one write(), for each fault. Without the variable, nothing is written.
 *
 * Streams' threads call this without the driver's lock.
 */

#include <stdbool.h>
#include <stdint.h>

struct stream;

/* Xid 31: a kernel has used an address without memory. */
void kernel_log_fault(const struct stream *stream, uint64_t address, bool is_write);

#endif
