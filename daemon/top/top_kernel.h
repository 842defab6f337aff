/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOP_KERNEL_H
#define TOP_KERNEL_H

/* Names of kernels in the table. Any thread. */

#include "base.h"

/*
 * The function's own name in a demangled name, without its type, namespaces, template arguments
 * and parameters: "scale" of "void n::scale<float>(float*)". A part of `text'.
 */
struct top_kernel_name {
	const char *text;
	size_t size;
};

struct top_kernel_name top_kernel_name(const char *demangled);

#endif
