/* SPDX-License-Identifier: Apache-2.0 */

#include "number.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "log.h"

bool number_read(const char *text, uint64_t most, uint64_t *ret_number)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*ret_number = strtoull(text, &end, 10);
	return !errno && !*end && *ret_number <= most;
}

uint64_t number_setting_read(const struct number_setting *setting)
{
	const char *text = getenv(setting->variable);
	uint64_t number;

	if (!text || !*text)
		return setting->usual;
	if (number_read(text, setting->most, &number) && number >= setting->least)
		return number;
	log_line("%s=%s is not a number of %s from %" PRIu64 " to %" PRIu64 ": %" PRIu64 " is used",
		setting->variable, text, setting->unit, setting->least, setting->most,
		setting->usual);
	return setting->usual;
}
