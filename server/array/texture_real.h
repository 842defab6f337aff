/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEXTURE_REAL_H
#define TEXTURE_REAL_H

/*
 * The driver's texture and surface objects. Clients and their memory have the value of each, which
 * the driver chooses: the lowest number that is free, or the one that was freed last. In another
 * server, a session has to get its values again, so no other session gets them before. A worker,
 * except for texture_real_end().
 */

#include <stdbool.h>

#include "server/driver/driver.h"

struct session;

/* What the driver makes of these. `sampler' NULL: a surface. */
struct object_desc {
	const CUDA_RESOURCE_DESC *resource;
	const CUDA_TEXTURE_DESC *sampler;
	const CUDA_RESOURCE_VIEW_DESC *view;
};

/* An object with a value that no session expects. */
CUresult texture_real_make(const struct object_desc *desc, uint64_t *ret_real);

/* An object with that value, which the session does not expect any more. */
CUresult texture_real_make_again(
	const struct session *session, const struct object_desc *desc, uint64_t value);

/* Any thread. */
void texture_real_end(bool is_surface, uint64_t real);

/* Before the session's worker starts: the values that the session will make again. */
void texture_real_expect(struct session *session);

/* The session makes none again. */
void texture_real_forget(const struct session *session);

#endif
