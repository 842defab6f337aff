/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LIMIT_TEXT_H
#define LIMIT_TEXT_H

/*
 * Numbers and limits in the syntax of users, on command lines and in environment variables.
 * The locale has no effect. Blanks before and after are refused.
 */

#include "base.h"

/* A decimal number of at most `max', without anything before or after it. 0 or -EINVAL. */
int parse_number(const char *text, uint64_t max, uint64_t *ret_number);

#define SWITCH_ACCEPTED "yes or no, or 1 or 0"

/* 0 or -EINVAL. */
int parse_switch(const char *text, bool *ret_is_on);

#define PERCENTAGE_ACCEPTED "a number of percent above 0, at most 100, such as 25 or 12.5"

/* Thousandths of a percent, 1 to ACTIVE_THREADS_ALL: "12.5" is 12500. Further decimals are cut
 * off. -EINVAL. */
int parse_percentage(const char *text, uint32_t *ret_thousandths);

/*
 * The number of groups that a share of a GPU's `n_sms' SMs fills, of `n_groups' groups with `group'
 * SMs each: at most the percentage, but at least one. 0: the whole GPU, or a GPU without groups.
 */
uint32_t share_groups(uint32_t thousandths, uint32_t n_sms, uint32_t group, uint32_t n_groups);

#define SIZE_ACCEPTED "a whole number with K, KB, M, MB, G or GB, such as 512M or 2G"
#define SIZE_LIMIT_MAX ((uint64_t)1 << 56)

/* 1 byte to SIZE_LIMIT_MAX; blanks may precede the unit, whose case does not matter. -EINVAL. */
int parse_size(const char *text, uint64_t *ret_bytes);

/* Holds every result of format_size(), with its NUL. */
#define SIZE_TEXT_MAX 24

/* In the largest of G, M and K that divides `bytes', else in bytes: "1044M", "3B". */
void format_size(uint64_t bytes, char *text, size_t size);

#endif
