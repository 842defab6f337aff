/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAULT_H
#define FAULT_H

/*
 * A GPU fault ends the context, and with it every session of this server: the
 * first thread to see one says so, the loop tells the others.
 */

#include "base.h"
#include "cuda_api.h"

struct session;

/* Whether the context, and with it everybody in this process, is lost. */
bool result_is_fault(CUresult result);

/* Notes a result that may be a fault; returns it. Any thread. */
CUresult fault_note(struct session *session, CUresult result);

/* CUDA_SUCCESS, or the fault that ended this server's context. Any thread. */
CUresult fault_get(void);

/* Id of the session whose work saw it first; 0 if none did. */
uint32_t fault_session(void);

/* For tests: as if nothing had happened. */
void fault_forget(void);

#endif
