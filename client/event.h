/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EVENT_H
#define EVENT_H

/*
 * Events: a name for how far a stream had come. To ask or to wait is to look
 * at the stream's timeline. Any thread.
 */

#include "context.h"

/* Ends the events of a context that goes. */
void events_end_context(struct context *context);

#endif
