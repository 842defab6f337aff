/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Every symbol of the driver that the software GPU does not serve. Any thread.
 *
 * Each function is weak: where another file defines the symbol, the linker takes that
 * definition. Its name in C differs, so that it needs no prototype of the headers.
 */

#include "driver.h"

#define SYMBOL(symbol)                                                                             \
	CUresult absent_##symbol(void) __asm__(#symbol);                                           \
	__attribute__((weak, visibility("default"))) CUresult absent_##symbol(void)                \
	{                                                                                          \
		return call_absent(#symbol);                                                       \
	}

#include "symbols.h"
