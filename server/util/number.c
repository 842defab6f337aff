/* SPDX-License-Identifier: Apache-2.0 */

#include "number.h"

#include <inttypes.h>

#include "limit_text.h"
#include "log.h"

uint64_t number_setting(
	const char *variable, const char *unit, uint64_t least, uint64_t most, uint64_t usual)
{
	const char *text = getenv(variable);
	uint64_t number;

	if (!text || !*text)
		return usual;
	if (parse_number(text, most, &number) == 0 && number >= least)
		return number;
	log_line("%s=%s is not a number of %s from %" PRIu64 " to %" PRIu64 ": %" PRIu64 " is used",
		variable, text, unit, least, most, usual);
	return usual;
}
