/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DMEM_H
#define DMEM_H

/*
 * The limits of GPU memory that the kernel has for a cgroup: its files dmem.max and dmem.min. They
 * are read, and never written. Loop thread.
 */

#include "base.h"

struct devices;
struct frame_limits;

/* What the files said when they were read last. A missing file has no limit. */
struct dmem;

/*
 * `is_min_known': a cgroup below has dmem.min, which counts instead. NULL without memory.
 */
struct dmem *dmem_read(const char *folder, bool is_min_known);
void dmem_free(struct dmem *dmem); /* NULL is fine */

/* Returns whether anything has changed. */
bool dmem_read_again(struct dmem *dmem);

/* Whether the cgroup itself has dmem.min, and it counts. */
bool dmem_has_min(const struct dmem *dmem);

bool dmem_is_limited(const struct dmem *dmem);

/* Lowers the limits of a server's GPUs. */
void dmem_lower(
	const struct dmem *dmem, const struct devices *devices, struct frame_limits *limits);

#endif
