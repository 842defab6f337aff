/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRINTF_OUTPUT_H
#define PRINTF_OUTPUT_H

/*
 * What this program's kernels print comes to its own standard output when it
 * synchronises, as from the driver. Any thread.
 */

/* A kernel that can print was launched. */
void printf_output_expect(void);

/* The program has synchronised. A look at a word, unless there may be text. */
void printf_output_synced(void);

#endif
