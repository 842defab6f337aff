/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_LOG_H
#define KERNEL_LOG_H

/*
 * What the NVIDIA kernel driver says of a fault in the machine's kernel log, in
 * the file that SOFTGPU_KERNEL_LOG names: one record of /dev/kmsg, and one
 * write() of the file, for each. Without the variable nothing is written.
 *
 * Called by streams' threads without the driver's lock.
 */

#include <stdbool.h>
#include <stdint.h>

struct stream;

/* Xid 31: a kernel has used an address that no memory is behind. */
void kernel_log_fault(const struct stream *stream, uint64_t address, bool is_write);

#endif
