/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTEXT_EVENTS_H
#define CONTEXT_EVENTS_H

/* Events that cover all work of a context, green contexts included. Any thread. */

#include "client/context/context.h"

CUresult context_record(struct context *context, CUevent handle);
CUresult context_wait(struct context *context, CUevent handle);

#endif
