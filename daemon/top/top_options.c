/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The options of top. main() only.
 *
 * Invariant: the interval is between INTERVAL_MIN_S and INTERVAL_MAX_S.
 */

#include "top_options.h"

#include <getopt.h>

#include "top.h"
#include "daemon/text/tokenize.h"

#define INTERVAL_MIN_S 0.1
#define INTERVAL_MAX_S 3600.0
#define SAMPLES_MAX 1000000000u

static const struct option long_options[] = {
	{"once", no_argument, NULL, '1'},
	{"json", no_argument, NULL, 'j'},
	{"delay", required_argument, NULL, 'd'},
	{"iterations", required_argument, NULL, 'n'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static int read_interval(struct top_options *options, const char *text, struct error_message *error)
{
	char *end;
	double seconds = strtod(text, &end);

	/* Written so that "nan" fails. */
	if (end == text || *end || !(seconds >= INTERVAL_MIN_S && seconds <= INTERVAL_MAX_S))
		return error_message_set(error, -EINVAL,
			"\"%.32s\" is not an interval: top -d takes %g to %g seconds", text,
			INTERVAL_MIN_S, INTERVAL_MAX_S);
	options->interval_ms = (uint64_t)(seconds * 1000 + 0.5);
	return 0;
}

static int read_count(struct top_options *options, const char *text, struct error_message *error)
{
	if (parse_number(text, SAMPLES_MAX, &options->n_samples) == 0 && options->n_samples > 0)
		return 0;
	return error_message_set(error, -EINVAL,
		"\"%.32s\" is not a number of samples: top -n takes 1 to %u", text, SAMPLES_MAX);
}

static int read_option(struct top_options *options, int option, struct error_message *error)
{
	switch (option) {
	case '1':
		options->is_once = true;
		return 0;
	case 'j':
		options->is_json = true;
		return 0;
	case 'h':
		options->wants_help = true;
		return 0;
	case 'd':
		return read_interval(options, optarg, error);
	case 'n':
		return read_count(options, optarg, error);
	default:
		return error_message_set(
			error, -EINVAL, "unknown option or missing value: top" TOP_USAGE);
	}
}

int top_options_read(struct top_options *ret, char *const *arguments, struct error_message *error)
{
	struct top_options options = {.interval_ms = 1000};
	int option, n = 0, r = 0;

	while (arguments[n])
		n++;
	/* 0: getopt has read the options of the program before. */
	optind = 0;
	opterr = 0;
	while (r == 0 && (option = getopt_long(n, arguments, "d:n:h", long_options, NULL)) != -1)
		r = read_option(&options, option, error);
	if (r == 0 && arguments[optind])
		r = error_message_set(error, -EINVAL, "unknown argument \"%.32s\": top" TOP_USAGE,
			arguments[optind]);
	if (r == 0)
		*ret = options;
	return r;
}
