/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPEC_HASH_H
#define SPEC_HASH_H

/*
 * What client, daemon and server compare when they meet.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#define SPEC_HASH 0x4d9bcfaeb027cfe8ull

#endif
