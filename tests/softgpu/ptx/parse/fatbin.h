/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PTX_FATBIN_H
#define PTX_FATBIN_H

/*
 * The PTX of a fatbin: the container from nvcc, with an entry for each form and
 * architecture of the same code.
 *
 * The server has its own reader (server/module/fatbin.c), and the two share no code: the server
 * chooses an entry to estimate the cost of a module, and the software GPU runs the entry that it
 * chooses itself. If both made the same wrong choice, no test could see the wrong cost. The unit
 * test of the server's reader compares the two.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the image has the beginning of a fatbin. */
bool ptx_fatbin_is(const void *image, size_t size);

/*
 * Finds and unpacks the PTX of the highest architecture that is at most `arch' (90 is sm_90). If
 * only machine code is that low, it takes the lowest PTX above, because the software GPU does not
 * run machine code. On success `*ret_text' ends with a NUL; the caller frees it.
 * -ENOEXEC: there is no such PTX. -EBADMSG: malformed. -ENOMEM.
 */
int ptx_fatbin_text(const void *image, size_t size, uint32_t arch, char **ret_text);

/* Writes what is in the image, for a message: "sm_75 machine code, sm_100 PTX". */
void ptx_fatbin_describe(const void *image, size_t size, char *text, size_t text_size);

#endif
