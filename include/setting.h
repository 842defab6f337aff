/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SETTING_H
#define SETTING_H

/* Environment variables that switch something off. */

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Whether the value is "0". As with secure_getenv(), no thread may change the environment
 * meanwhile. */
static inline bool setting_is_off(const char *variable)
{
	const char *value = secure_getenv(variable);

	return value && strcmp(value, "0") == 0;
}

#endif
