/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ELASTIC_H
#define ELASTIC_H

/*
 * The share of each GPU's SMs that background sessions have while the foreground is at work. A
 * controller (share_controller.h) finds the share from what the foreground's work takes beside
 * it. A share is a number of groups of SMs, as the driver divides the GPU (sm_share.h).
 *
 * A GPU whose SMs the driver cannot divide has no shares.
 *
 * Any worker.
 */

#include <stdbool.h>
#include <stdint.h>

#include "share_controller.h"

struct device;

/* Reads MPS_FOREGROUND_SLOWDOWN and MPS_BACKGROUND_FLOOR, before the first session. */
void elastic_init(void);

/*
 * The foreground is at work on the GPU now; and whether it is, or was a moment ago. The pauses
 * between requests of a busy client are shorter than that.
 */
#define ELASTIC_RECENT_NS 2000000u
void elastic_note_foreground(const struct device *device, uint64_t now);
bool elastic_has_foreground(const struct device *device, uint64_t now);

/* More than every group: all SMs, also those of no group; 0: the GPU has no shares. */
unsigned elastic_groups_all(const struct device *device);

/* The groups for background work while the foreground is at work. */
unsigned elastic_groups(const struct device *device, uint64_t now);

/*
 * What an operator sees, any thread: the SMs that background sessions may use now, all of them if
 * no foreground session was at work for ELASTIC_SEEN_NS (0: the GPU has no shares); and how long
 * the work of a foreground session takes beside them (share_controller_slowdown()).
 */
#define ELASTIC_SEEN_NS 1000000000u
unsigned elastic_sms(const struct device *device, uint64_t now);
unsigned elastic_sms_of(const struct device *device, unsigned groups);
unsigned elastic_slowdown(const struct device *device, uint32_t session, uint64_t now);

/* The shares that elastic_groups() chooses among; returns their number, 0 if there are none. */
unsigned elastic_sizes(const struct device *device, unsigned sizes[SHARE_SIZES_MAX]);

/*
 * A piece of a session's work has ended: equal values of `work' are equal work. Background work
 * could use that many groups all that time; 0: there was no background work.
 */
void elastic_note(const struct device *device, uint32_t session, uint64_t work, uint64_t ns,
	unsigned groups, uint64_t now);

#endif
