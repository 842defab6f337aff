/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPEC_HASH_H
#define SPEC_HASH_H

/*
 * The hash that client, daemon and server compare in the handshake.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#define SPEC_HASH 0x6d5039411eb241f1ull
/* For the assembler, which knows no suffix. */
#define SPEC_HASH_TEXT "0x6d5039411eb241f1"

#endif
