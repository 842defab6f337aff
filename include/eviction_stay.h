/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVICTION_STAY_H
#define EVICTION_STAY_H

/* Why memory of a client stays on a GPU. Any thread. */

#include "base.h"

enum eviction_stay {
	STAY_NOTHING,  /* nothing stays, or nothing was asked */
	STAY_OFF,      /* `oversubscribe' is off for the client, and it borrows nothing */
	STAY_AT_WORK,  /* it has work, or its client has just made a call */
	STAY_LASTS,    /* it had to stop for a turn, and its work has not ended */
	STAY_BLOCKED,  /* ... and a stream of it waits on the GPU */
	STAY_SHARED,   /* other clients may open it */
	STAY_EXPORTED, /* a descriptor has left the server, or it came by one */
	STAY_STORE,    /* the store is full */
	STAY_REFUSED,  /* the driver refuses a call */
	EVICTION_STAYS
};

const char *eviction_stay_text(enum eviction_stay stay);

#endif
