/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack of current contexts of each thread. Runs in any thread.
 *
 * The top is a variable of the thread. Only programs that push several contexts allocate
 * nodes for the others; a thread that ends with such nodes leaks them.
 */

#include "current.h"

#include <stdlib.h>

struct below {
	struct below *next;
	const void *handle;
};

static _Thread_local const void *top;
static _Thread_local struct below *below;

const void *current_top(void)
{
	return top;
}

CUresult current_push(const void *handle)
{
	struct below *node;

	if (top) {
		node = malloc(sizeof(*node));
		if (!node)
			return CUDA_ERROR_OUT_OF_MEMORY;
		*node = (struct below){below, top};
		below = node;
	}
	top = handle;
	return CUDA_SUCCESS;
}

const void *current_pop(void)
{
	_cleanup_free_ struct below *node = below;
	const void *popped = top;

	top = node ? node->handle : NULL;
	below = node ? node->next : NULL;
	return popped;
}
