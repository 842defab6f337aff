/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOKEN_H
#define TOKEN_H

/*
 * An unguessable number: a client that has it may open the object that it stands for. Any
 * thread.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/random.h>

struct token {
	uint64_t words[2];
};

static inline bool token_make(struct token *token)
{
	return getrandom(token, sizeof(*token), 0) == (ssize_t)sizeof(*token);
}

static inline bool token_is(const struct token *token, const uint64_t words[2])
{
	return ((token->words[0] ^ words[0]) | (token->words[1] ^ words[1])) == 0;
}

#endif
