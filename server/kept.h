/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KEPT_H
#define KEPT_H

/*
 * How many bytes of the server's own memory the driver keeps for each object that it makes for
 * a client. A driver tells nobody, so these are estimates, by which accounts are charged
 * (account.h). tests/programs/driver_keeps.c measures them: the figures in the comments are
 * from the software GPU, after memory that was freed had been given back. A GPU's driver has
 * not been measured yet, so the estimates are well above these figures.
 *
 * An object is charged with its whole estimate from its beginning to its end,
 * whether or not the driver has made all of it yet.
 */

/* 11 KiB, for its thread. On a GPU a stream has a ring and a buffer for its commands. */
#define KEPT_STREAM (64u << 10)
/* 190. */
#define KEPT_EVENT 512u

/* 57 KiB, with one kernel. */
#define KEPT_LIBRARY (64u << 10)
/* 470. */
#define KEPT_KERNEL 2048u
/* Machine code, after unpacking. */
#define KEPT_CODE(size) ((uint64_t)(size))
/* PTX, which is compiled: 3.4 bytes for each byte of instructions, 1.4 for remarks. */
#define KEPT_TEXT(size) (4 * (uint64_t)(size))

/* 300. */
#define KEPT_LINKER (16u << 10)
/* A linker copies each input and keeps what it makes of it: 2.2 bytes for each byte. */
#define KEPT_INPUT(size) (3 * (uint64_t)(size))

/* Graphs and their parts: the model and the executable graph that is made of it, together. */
/* 310. */
#define KEPT_GRAPH 4096u
/* 350, of every kind. */
#define KEPT_NODE 1024u
/* 10. */
#define KEPT_EDGE 64u
/* Parameters of a kernel node. */
#define KEPT_PARAMS(size) (2 * (uint64_t)(size))
/* 96, for each operation of a node. On a GPU it is a command of some words as well. */
#define KEPT_MEMORY_OP 192u

/* 300, beside its bytes. */
#define KEPT_ARRAY 4096u
/* 1 200. */
#define KEPT_TEXTURE 2048u

/* 290, for an allocation and its mapping. */
#define KEPT_ALLOCATION 1024u
#define KEPT_MAPPING 1024u
/* A range of addresses. */
#define KEPT_RESERVATION 4096u
/* 120, for a range of host memory that the GPU reaches. */
#define KEPT_REGISTRATION 1024u

/* 1.6 MiB on an H200 with driver 580, which the driver leaks (tests/programs/driver_growth.c). */
#define KEPT_GREEN (2u << 20)

/* The stack of one of our threads, which waits in the driver. */
#define KEPT_THREAD (16u << 10)

#endif
