/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPEC_HASH_H
#define SPEC_HASH_H

/*
 * SPEC_HASH: of what a client, its server and the daemon have in common. MOVE_HASH: of what
 * two servers between which clients move have in common.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#define SPEC_HASH 0x6d5039411eb241f1ull
/* For the assembler, which knows no suffix. */
#define SPEC_HASH_TEXT "0x6d5039411eb241f1"

#define MOVE_HASH 0x4d89a64a3f8b25acull

#endif
