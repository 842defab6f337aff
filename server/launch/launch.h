/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_H
#define LAUNCH_H

/*
 * Checks and attributes that launches and kernel nodes of graphs share. The session's worker only.
 */

#include "layout.h"
#include "server/driver/driver.h"
#include "server/module/kernel.h"

#define LAUNCH_ATTRIBUTES_MAX 8

bool launch_shape_ok(const struct device_facts *facts, const struct device_kernel *kernel,
	const uint32_t grid[3], const uint32_t block[3], uint32_t shared_bytes);

bool launch_cluster_ok(const uint32_t grid[3], const uint32_t cluster[3]);

/* Fills in the attributes in attr_mask that a node has, too; returns their number. */
unsigned launch_attributes(CUlaunchAttribute attributes[LAUNCH_ATTRIBUTES_MAX], uint32_t attr_mask,
	const uint32_t cluster[3], uint32_t cluster_policy, int32_t priority);

#endif
