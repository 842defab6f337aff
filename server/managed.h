/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MANAGED_H
#define MANAGED_H

/*
 * Libraries with variables of __managed__, which kernels and the program reach
 * by one address: they are loaded anew, from machine code that has them in
 * pinned memory of the client's (cubin.h). The session's worker only.
 */

struct managed;

/* Its library is unloaded; NULL is fine. */
void managed_free(struct managed *managed);

#endif
