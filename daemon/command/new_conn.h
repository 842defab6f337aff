/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A connection that has not said what it is: its first byte tells a frame from text. Loop thread.
 */

struct conn_ops;

extern const struct conn_ops new_conn_ops;
