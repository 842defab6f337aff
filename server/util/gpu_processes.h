/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPU_PROCESSES_H
#define GPU_PROCESSES_H

#include <stddef.h>

/*
 * Lists the processes that have a GPU's device file open, as far as /proc shows them: "12
 * (python3), 34 (Xorg)", or "none that this user may see". Reads all of /proc: for error
 * messages only.
 */
void gpu_processes_list(char *ret_text, size_t size);

#endif
