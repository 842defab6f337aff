/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LIBRARY_LOAD_H
#define LIBRARY_LOAD_H

/*
 * What the driver has of a library, and what it costs: the charge for its variables, the calls that
 * load its code, refusals, and why its session cannot move. The session's worker only, unless
 * stated otherwise.
 */

#include <stdbool.h>
#include <stdint.h>

#include "server/driver/driver.h"

struct device;
struct library;
struct session;
struct session_device;

/* How many refusals of a session are logged, because a client may try forever. */
#define REFUSALS_LOGGED 16

/*
 * Before the first use on a GPU, which makes the variables there: charges them to the
 * session's limit, if there is one, but for `managed' bytes, which are in the client's memory and
 * charged there. CUDA_ERROR_OUT_OF_MEMORY.
 */
CUresult library_charge(struct session *session, struct library *library, uint64_t managed,
	struct session_device *sdev);

/*
 * Around a driver call that loads the code on that GPU, unless it has been loaded. False:
 * do not make the call, because the session ends, or the device is lost.
 */
bool library_load_begin(
	struct session *session, const struct library *library, struct device *device);
void library_load_end(struct library *library, struct device *device, CUresult result);

bool library_is_loaded(const struct library *library, const struct device *device);

/* The session cannot move because of the library, or (NULL) can. */
void library_set_reason(struct session *session, struct library *library, const char *reason);

/* The library has ended, or no longer keeps the session. */
void library_reason_end(struct session *session, const struct library *library);

/* Why libraries of the session keep it from moving; NULL: they do not. Any thread. */
const char *library_immovable(const struct session *session);

/* The library ends later: its charges count as memory that will be free. */
void library_charges_close(struct library *library);
void library_charges_end(struct library *library);

/* Logs that the driver refused the image or a kernel of it, and why. */
void library_log_refusal(struct session *session, struct library *library, CUresult result);

#endif
