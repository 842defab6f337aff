/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DEEPBIND_H
#define DEEPBIND_H

#include "elf_file.h"

/*
 * Whether the machine code of the file calls dlopen() with a constant that contains
 * RTLD_DEEPBIND. A flag that the program computes, and code for other processors than
 * x86-64, is not seen.
 */
bool deepbind_is_used(const struct elf_file *file);

#endif
