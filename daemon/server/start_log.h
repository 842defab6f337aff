/* SPDX-License-Identifier: Apache-2.0 */
#ifndef START_LOG_H
#define START_LOG_H

struct server;

/* The server of this daemon has become ready, and has reported its GPUs. */
void start_log(struct server *server);

#endif
