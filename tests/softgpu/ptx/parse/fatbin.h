/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_FATBIN_H
#define PTX_FATBIN_H

/*
 * The PTX of a fatbin: the container that nvcc makes, with an entry for each
 * form and architecture of the same code.
 *
 * The server has a reader of its own (server/module/fatbin.c), and the two share no code: the
 * server chooses an entry to know what a module costs, and the software GPU runs the entry that it
 * chooses itself. If both had the same wrong choice, no test could see the wrong cost.
 * The unit test of the server's reader compares the two.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the image begins as a fatbin does. */
bool ptx_fatbin_is(const void *image, size_t size);

/*
 * Finds and unpacks the PTX of the highest architecture that is at most `arch' (90 is sm_90). If
 * there is only machine code that low, it takes the lowest PTX above, since the software GPU runs
 * no machine code. On success `*ret_text' is NUL-terminated and the caller's to free.
 * -ENOEXEC: there is no such PTX. -EBADMSG: malformed. -ENOMEM.
 */
int ptx_fatbin_text(const void *image, size_t size, uint32_t arch, char **ret_text);

#endif
