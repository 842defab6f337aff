/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEMANGLE_H
#define DEMANGLE_H

/* Names of C++ functions as their source has them. Any thread. */

#include "base.h"

#define DEMANGLED_MAX 512

struct demangled {
	char text[DEMANGLED_MAX];
};

/*
 * Returns demangled->text, or `name' itself if it is not the whole mangled name of a function. A
 * text that is too long ends with "...". It may have any byte that the name has.
 */
const char *demangle(struct demangled *demangled, const char *name);

#endif
