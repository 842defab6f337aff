/* SPDX-License-Identifier: Apache-2.0 */

/* Reasons as text. Any thread. */

#include "eviction_stay.h"

const char *eviction_stay_text(enum eviction_stay stay)
{
	static const char *const texts[EVICTION_STAYS] = {
		[STAY_NOTHING] = "nothing stays",
		[STAY_OFF] = "oversubscribe is off",
		[STAY_AT_WORK] = "its client is at work",
		[STAY_LASTS] = "its work does not end",
		[STAY_BLOCKED] = "a stream of it waits on the GPU",
		[STAY_SHARED] = "other clients may open it",
		[STAY_EXPORTED] = "a descriptor outside the server may hold it",
		[STAY_STORE] = "the store is full",
		[STAY_REFUSED] = "the driver refused a call",
	};

	return texts[stay];
}
