/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QUOTE_H
#define QUOTE_H

/*
 * Foreign text in lines for users: names of programs, groups and files. Any
 * thread.
 */

#include "base.h"

/*
 * Bytes of the UTF-8 sequence that begins here. 0: the text's end, no sequence, a C1 control, or
 * a character that changes the direction of text or ends a line.
 */
size_t utf8_length(const char *text);

/* Bytes of any UTF-8 sequence, with its code point; 0: no sequence, or the text's end. */
size_t utf8_decode(const char *text, uint32_t *ret_point);

/* Room for quoted text, its quotes and NUL included. */
#define QUOTED_MAX 160

struct quoted {
	char text[QUOTED_MAX];
};

/*
 * Puts `text' in double quotes. Quotes and backslashes get a backslash; bytes
 * that are not printable UTF-8 become \n, \t or \xHH. A text that is too long ends
 * with "..." after its closing quote. Always returns quoted->text.
 */
const char *quote(struct quoted *quoted, const char *text);

#endif
