/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COUNT_EXITS_H
#define COUNT_EXITS_H

/*
 * Included in each file of a COVERAGE=1 build: a process that calls _exit()
 * writes its counters first.
 */

#include <unistd.h>

void __gcov_dump(void);

#define _exit(status) (__gcov_dump(), _exit(status))

#endif
