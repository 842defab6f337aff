/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NEW_CONN_H
#define NEW_CONN_H

/* A connection that has not said what it is: its first byte tells a frame from text. Loop thread.
 */

struct conn_ops;

extern const struct conn_ops new_conn_ops;

#endif
