/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KEPT_H
#define KEPT_H

/*
 * How many bytes of the server's own memory the driver keeps for each object that it makes
 * for a client. The driver has no call that returns this number, so accounts are charged by
 * these estimates (account.h). tests/programs/driver_api/driver_keeps.c measures them, and
 * `tests/gpu/run keeps' fails if an estimate is too low. The figures in the comments are
 * bytes, measured on an H200 with driver 580.
 *
 * An object is charged with its whole estimate from its beginning to its end, whether or not
 * the driver has made all of it yet.
 */

/* 14 700, and a thread of the software GPU. */
#define KEPT_STREAM (64u << 10)
/* 511. */
#define KEPT_EVENT 1024u

/* 37 800. */
#define KEPT_LIBRARY (64u << 10)
/* 28 600, and 8 MiB once: 43 800 per kernel for 500 kernels. */
#define KEPT_KERNEL (48u << 10)
/* Machine code, after unpacking. */
#define KEPT_CODE(size) ((uint64_t)(size))
/* PTX, which the driver compiles: 1.2 bytes for each byte (the software GPU 3.4). */
#define KEPT_TEXT(size) (4 * (uint64_t)(size))

/* 123 700. */
#define KEPT_LINKER (160u << 10)
/* A linker copies each input and keeps its result: 2.1 bytes for each byte. */
#define KEPT_INPUT(size) (3 * (uint64_t)(size))

/* Graphs and their parts: the model and the executable graph made from it, together. */
/* 2 500. */
#define KEPT_GRAPH 4096u
/* 5 700 for an empty node to 8 400 for a copy. */
#define KEPT_NODE (10u << 10)
/* 180 to 280. */
#define KEPT_EDGE 384u
/* Parameters of a kernel node: 4.0 bytes for each byte. */
#define KEPT_PARAMS(size) (5 * (uint64_t)(size))
/* A condition; a conditional node, besides its bodies, each of which is a graph: 17 000 to
 * 50 000 with a body and its node. */
#define KEPT_CONDITION 256u
#define KEPT_CONDITIONAL (24u << 10)
/* What a node in a body takes besides: 17 500 to 25 000 in all. */
#define KEPT_IN_BODY (16u << 10)
/* 96 for each operation of a node. */
#define KEPT_MEMORY_OP 192u

/* 970, besides its bytes. */
#define KEPT_ARRAY 4096u
/* 1 270. */
#define KEPT_TEXTURE 2048u

/* 5 500, for an allocation and its mapping. */
#define KEPT_ALLOCATION 4096u
#define KEPT_MAPPING 4096u
/* A range of addresses. */
#define KEPT_RESERVATION 4096u
/* 3 200, for a range of host memory that the GPU reaches. */
#define KEPT_REGISTRATION 4096u

/* 1.6 MiB, which the driver leaks (server/driver/driver_facts.h). */
#define KEPT_GREEN (2u << 20)

/* The stack of a server thread that waits in the driver. */
#define KEPT_THREAD (16u << 10)

#endif
