/* SPDX-License-Identifier: Apache-2.0 */

/* Invariant: any text has a name, which is not empty unless the text is. */

#include "top_kernel.h"

#include <string.h>

/* The name of a namespace in demangled names. */
#define ANONYMOUS "(anonymous namespace)"

/* Behind the bracket that closes the first one of the text, or the end of the text. */
static const char *skip_brackets(const char *text)
{
	unsigned depth = 0;

	for (; *text; text++) {
		depth += strchr("<({[", *text) != NULL;
		if (strchr(">)}]", *text) && --depth == 0)
			return text + 1;
	}
	return text;
}

/* Where the next part of a name begins behind a separator; NULL: no separator is here. */
static const char *skip_separator(const char *text)
{
	if (*text == ' ')
		return text + 1;
	return strncmp(text, "::", 2) == 0 ? text + 2 : NULL;
}

struct top_kernel_name top_kernel_name(const char *demangled)
{
	const char *begin = demangled, *end = demangled;

	while (*end) {
		const char *next = skip_separator(end);

		if (next && *next) {
			begin = end = next;
		} else if (strncmp(end, ANONYMOUS, strlen(ANONYMOUS)) == 0) {
			end += strlen(ANONYMOUS);
		} else if (*end == '(' && end > begin) {
			break;
		} else if (*end == '<' && end > begin) {
			next = skip_brackets(end);
			/* Else they belong to a namespace or to the function's type. */
			if (!skip_separator(next))
				break;
			end = next;
		} else {
			end++;
		}
	}
	return (struct top_kernel_name){begin, (size_t)(end - begin)};
}
