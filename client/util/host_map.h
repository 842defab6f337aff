/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_MAP_H
#define HOST_MAP_H

/*
 * Where this process has mapped pinned memory. The server makes regions of it, each a file in
 * memory with an address. Of a region, this process maps the chunks that contain an allocation,
 * and keeps 16 MiB at most of others. So a core, mlockall() and a limit of addresses see little
 * else. Any thread.
 */

#include "base.h"

/*
 * Adds the region [base, base + size) whose file is `fd'. Maps nothing. Takes `fd', on failure
 * too. -EEXIST: this process cannot have memory there, because something else is there or
 * because a sanitizer has other plans for these addresses.
 */
int host_map_add(uint64_t base, uint64_t size, int fd);

/*
 * Counts one more allocation in the chunk [start, start + span), and maps the chunk for the
 * first of them. 1: it was mapped now; 0: it was mapped already. On failure nothing is counted:
 * -EEXIST: something else is there; -EBADF: the program has closed the region's descriptor;
 * -ENXIO: no region contains the chunk; another -errno of mmap().
 */
int host_map_use(uint64_t start, uint64_t span);

/* Counts one allocation less in the chunk whose first page contains `address'. */
void host_map_unuse(uint64_t address);

#endif
