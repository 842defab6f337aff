/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The last minute of a value. Any thread.
 *
 * Invariant: a cell of `seconds' belongs to one of the TOP_HISTORY_S seconds that end with
 * `end_s'.
 */

#include "top_history.h"

#include <string.h>

#define SECOND_NS 1000000000u

static struct top_second *second_of(struct top_history *history, uint64_t s)
{
	return &history->seconds[s % TOP_HISTORY_S];
}

/* Makes `end_s' the newest second. */
static void advance(struct top_history *history, uint64_t end_s)
{
	if (end_s <= history->end_s)
		return;
	if (end_s - history->end_s >= TOP_HISTORY_S)
		memset(history->seconds, 0, sizeof(history->seconds));
	else
		for (uint64_t s = history->end_s + 1; s <= end_s; s++)
			*second_of(history, s) = (struct top_second){0};
	history->end_s = end_s;
}

void top_history_add(struct top_history *history, uint64_t from_ns, uint64_t to_ns, double value)
{
	uint64_t end_s = to_ns / SECOND_NS;
	uint64_t first_s = end_s >= TOP_HISTORY_S ? end_s - TOP_HISTORY_S + 1 : 0;

	advance(history, end_s);
	for (uint64_t s = MAX(first_s, from_ns / SECOND_NS); s <= end_s; s++) {
		uint64_t begin = MAX(from_ns, s * SECOND_NS);
		uint64_t end = MIN(to_ns, (s + 1) * SECOND_NS);
		float part = end > begin ? (float)(end - begin) / (float)SECOND_NS : 0;

		second_of(history, s)->sum += (float)value * part;
		second_of(history, s)->known += part;
	}
}

int top_history_level(
	const struct top_history *history, uint64_t now_ns, unsigned part, unsigned n_parts)
{
	uint64_t now_s = now_ns / SECOND_NS;
	float sum = 0, known = 0;

	for (unsigned i = part * TOP_HISTORY_S / n_parts; i < (part + 1) * TOP_HISTORY_S / n_parts;
		i++) {
		/* TOP_HISTORY_S is added to avoid numbers below 0 after the start of the machine.
		 */
		uint64_t s = now_s + i + 1;

		if (s < TOP_HISTORY_S || s > history->end_s + TOP_HISTORY_S || s <= history->end_s)
			continue;
		sum += history->seconds[s % TOP_HISTORY_S].sum;
		known += history->seconds[s % TOP_HISTORY_S].known;
	}
	if (known <= 0)
		return TOP_LEVEL_UNKNOWN;
	return MIN(MAX((int)(sum / known * (TOP_LEVELS - 1) + 0.5f), 0), TOP_LEVELS - 1);
}

const char *top_history_glyph(int level, bool is_utf8)
{
	static const char *const blocks[TOP_LEVELS] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const ascii[TOP_LEVELS] = {"_", ".", ":", "-", "=", "+", "*", "#"};

	if (level < 0 || level >= TOP_LEVELS)
		return " ";
	return is_utf8 ? blocks[level] : ascii[level];
}
