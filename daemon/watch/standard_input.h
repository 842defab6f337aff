/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STANDARD_INPUT_H
#define STANDARD_INPUT_H

/*
 * The standard input of a daemon in the foreground that was started with protocol 3: a line `quit',
 * or the end of the input, ends the daemon. Loop thread.
 */

struct daemon;

/* Does nothing unless standard input is a pipe or a socket: /dev/null does not end the daemon. */
void standard_input_watch(struct daemon *daemon);

/* The loop can end. */
void standard_input_close(void);

#endif
