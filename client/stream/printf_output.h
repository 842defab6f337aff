/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRINTF_OUTPUT_H
#define PRINTF_OUTPUT_H

/*
 * The output of this program's kernels goes to its own stdout when the program
 * synchronises, as with the driver. Any thread.
 */

/* A kernel that can print has been launched. */
void printf_output_expect(void);

/* The program has synchronised. Costs one load if there is no output. */
void printf_output_synced(void);

#endif
