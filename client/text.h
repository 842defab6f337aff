/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXT_H
#define TEXT_H

/*
 * What this program's kernels print comes to its own standard output when it
 * synchronises, as from the driver. Any thread.
 */

/* A kernel that can print was launched. */
void text_expect(void);

/* The program has synchronised. A look at a word, unless there may be text. */
void text_synced(void);

#endif
