/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_H
#define WORKER_H

/* A worker process makes some calls in one state and reports each result through a pipe. */

#include <stdint.h>

enum state {
	STATE_OWN,   /* the objects' context is current */
	STATE_NONE,  /* the thread has no current context */
	STATE_NULL,  /* the same, and streams are NULL */
	STATE_OTHER, /* a context of another device is current */
	STATE_DEAD,  /* the objects' context has been destroyed, and is still current */
	STATE_STALE, /* the objects' context has been destroyed; the primary context is current */
	STATE_RESET, /* the objects' context is the primary context, has been reset, and is current
		      */
	N_STATES,
};

/* What is known of a call in a state, besides a CUresult. */
enum {
	RESULT_UNKNOWN = -1,
	RESULT_ABSENT = -2,  /* the library has no such symbol */
	RESULT_FIXTURE = -3, /* its arguments could not be made */
	RESULT_CRASH = -4,
	RESULT_HANG = -5,
	RESULT_SKIPPED = -6, /* not asked for, or there is one device only */
	RESULT_REFUSED = -7, /* the context could not be ended */
};

/* What the worker is about to do. */
enum step {
	STEP_PREPARE, /* makes the arguments of a call */
	STEP_END,     /* destroys or resets the context */
	STEP_ENDED,   /* has done so, or failed with the result */
	STEP_CALL,
	STEP_DONE, /* has made a call, with its result */
};

struct report {
	int32_t step;
	int32_t call;
	int32_t result;
};

/*
 * Makes the calls [first, end) whose result in `results' is unknown, and reports to `fd'. Ends the
 * process: 0 also if a call has broken the state, so that calls are left for another process.
 */
_Noreturn void worker_run(enum state state, int first, int end, const int *results, int fd);

/*
 * Breaks each check of each call, with all later checks of the call, and prints what the call did
 * not answer as stated. Ends the process.
 */
_Noreturn void worker_check(void);

/* Prints the device and the driver, and ends the process with 1 + the number of devices. */
_Noreturn void worker_describe(void);

#endif
