/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_SET_H
#define CLIENT_SET_H

/* Which clients a command is about. Any thread. */

#include <stdint.h>

struct client_set {
	enum {
		CLIENTS_OF_PROCESS,
		CLIENTS_OF_GROUP,
		CLIENTS_OF_USER,
	} kind;
	uint32_t number; /* the PID, the ID of the group, the UID */
};

#endif
