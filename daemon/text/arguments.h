/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H

/*
 * The grammar of commands of protocol 3: words, `--key=value' or `key=value', and `--flag'. The
 * usage of the command says which keys and flags there are. Keys may have _ for -. Any thread.
 */

#include "error_message.h"
#include "tokenize.h"

/*
 * Moves the options among the tokens to tokens->options, and changes their keys in place. `usage'
 * names each key as "--key=" and each flag as "--flag". 0 or -EINVAL with an error message.
 */
int arguments_read(struct tokens *tokens, const char *usage, struct error_message *error);

/* The value of a key, "" of a flag; NULL: it is not given. */
const char *arguments_get(const struct tokens *tokens, const char *key);

#endif
