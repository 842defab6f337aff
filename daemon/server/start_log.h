/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct server;

/* The server of this daemon has become ready, and has reported its GPUs. */
void start_log(struct server *server);
