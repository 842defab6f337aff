/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The options of the command line. Runs in main() first.
 *
 * Invariant: tokens after the first word of a command belong to the command.
 */

#include "options.h"

#include <getopt.h>
#include <stdio.h>

#include "daemon/text/tokenize.h"
#include "daemon/config/config_file.h"

#define PROTOCOL_DEFAULT 2
#define PROTOCOL_MAX 3
#define PROTOCOL_VARIABLE "CUDA_MPS_PROTOCOL_VERSION"

/* With protocol 3, -m is the vendor's short form of --multiuser. */
#define SHORT_OPTIONS "+a:c:dfhm:Mp:qSv"
#define SHORT_OPTIONS_3 "+a:c:dfhmMp:qSv"

/* The vendor's long options may have one dash; "forground" is spelled as in the vendor's help. */
static const struct option long_options[] = {
	{"apply", required_argument, NULL, 'a'},
	{"config", required_argument, NULL, 'c'},
	{"daemon", no_argument, NULL, 'd'},
	{"foreground", no_argument, NULL, 'f'},
	{"forground", no_argument, NULL, 'f'},
	{"help", no_argument, NULL, 'h'},
	{"metrics", required_argument, NULL, 'x'},
	{"multiuser", no_argument, NULL, 'M'},
	{"multiuser-server", no_argument, NULL, 'M'},
	{"protocol", required_argument, NULL, 'p'},
	{"quit", no_argument, NULL, 'q'},
	{"software", no_argument, NULL, 'g'},
	{"static-partitioning", no_argument, NULL, 'S'},
	{"strict", no_argument, NULL, 's'},
	{"version", no_argument, NULL, 'v'},
	{NULL, 0, NULL, 0},
};

void options_print(void)
{
	puts("OPTIONS:\n"
	     "  -h, --help                 print this help\n"
	     "  -v, --version              print the version\n"
	     "  -d, --daemon               start the daemon in the background; return when it "
	     "accepts "
	     "connections\n"
	     "  -f, --foreground           run the daemon in the foreground; copy both logs to "
	     "standard output\n"
	     "  -a, --apply FILE           for the daemon: make the servers and namespaces of a "
	     "file (TOML)\n"
	     "  -c, --config FILE          the configuration file; default: " CONFIG_FILE_DEFAULT
	     "\n"
	     "  -m, --metrics ADDRESS      for the daemon: answer HTTP requests for the metrics at "
	     "[HOST:]PORT;\n"
	     "                             with -p 3, -m is --multiuser\n"
	     "  -M, --multiuser            for the daemon: run one server for all users; needs "
	     "root\n"
	     "  -S, --static-partitioning  for the daemon: give clients static partitions of SMs\n"
	     "      --software             for the daemon: use the software GPU, which needs no "
	     "NVIDIA GPU\n"
	     "  -p, --protocol 2|3         for the daemon: begin as the vendor's daemon does with "
	     "this protocol\n"
	     "  -q, --quit                 end the daemon and its servers; clients have ten "
	     "seconds to end\n"
	     "      --strict               exit with status 1 also if a command failed");
}

/* What the command line and the environment say about the protocol; NULL: nothing. */
struct protocol {
	const char *option, *variable;
};

/* Wherever the option is: the protocol decides whether -m has a value. */
static struct protocol find_protocol(int argc, char **argv)
{
	struct protocol found = {.variable = getenv(PROTOCOL_VARIABLE)};
	int option;

	if (found.variable && !*found.variable)
		found.variable = NULL;
	opterr = 0;
	while ((option = getopt_long_only(argc, argv, SHORT_OPTIONS_3, long_options, NULL)) != -1)
		if (option == 'p')
			found.option = optarg;
	opterr = 1;
	optind = 0;
	return found;
}

/* The variable overrides the option, as NVIDIA documents it. */
static unsigned protocol_number(const struct protocol *protocol)
{
	const char *text = protocol->variable ? protocol->variable : protocol->option;
	uint64_t number = PROTOCOL_DEFAULT;

	(void)parse_number(text ? text : "", PROTOCOL_MAX, &number);
	return (unsigned)number;
}

static int check_protocol(const char *text, const char *where, struct error_message *error)
{
	uint64_t number;

	if (!text || (parse_number(text, PROTOCOL_MAX, &number) == 0 && number >= PROTOCOL_DEFAULT))
		return 0;
	return error_message_set(error, -EINVAL,
		"Protocol \"%.32s\" (%s) is not supported: set it to %d or %d, or leave it out",
		text, where, PROTOCOL_DEFAULT, PROTOCOL_MAX);
}

static int set_metrics(struct options *options, const char *address, struct error_message *error)
{
	struct error_message why;

	if (config_key_check(CONFIG_METRICS_LISTEN, address, &why) < 0)
		return error_message_set(error, -EINVAL, "-m is \"%.64s\": %s", address, why.text);
	options->metrics = address;
	return 0;
}

static int set_mode(struct options *options, enum mode mode, struct error_message *error)
{
	if (options->mode != MODE_CLI && options->mode != mode)
		return error_message_set(error, -EINVAL, "-d and -f cannot be combined");
	options->mode = mode;
	return 0;
}

/* Checks options that apply only to the daemon, or only to commands. */
static int check_combination(
	const struct options *options, const struct protocol *protocol, struct error_message *error)
{
	if (options->mode == MODE_CLI) {
		if (options->is_multiuser || options->is_partitioned || options->metrics ||
			options->is_software || options->apply_path)
			return error_message_set(error, -EINVAL,
				"-a, -M, -S, -m and --software apply to the daemon: "
				"use them with -d or -f");
		return check_protocol(protocol->option, "-p", error);
	}
	if (*options->command)
		return error_message_set(error, -EINVAL, "-d and -f take no command");
	if (options->is_strict)
		return error_message_set(
			error, -EINVAL, "--strict applies to commands: use it without -d and -f");
	if (options->is_multiuser && geteuid() != 0)
		return error_message_set(error, -EINVAL,
			"-M serves all users with one server, which only root can do: start the "
			"daemon as root, or leave -M out");
	if (protocol->variable)
		return check_protocol(protocol->variable, PROTOCOL_VARIABLE, error);
	return check_protocol(protocol->option, "-p", error);
}

/* The command of -q; its clients have a bounded time, which the vendor's option does not name. */
static int set_quit(struct options *options, char *const *rest, struct error_message *error)
{
	static char *const quit[] = {"quit", "-t", "10", NULL};

	if (*rest || options->mode != MODE_CLI)
		return error_message_set(error, -EINVAL, "-q ends the daemon: it takes no command");
	options->command = quit;
	options->is_strict = true;
	return 0;
}

int options_read(struct options *options, int argc, char **argv, struct error_message *error)
{
	const struct protocol protocol = find_protocol(argc, argv);
	bool is_quit = false;
	int option, r = 0;

	*options = (struct options){.protocol = protocol_number(&protocol)};
	/* "+": arguments after a command are the command's own, like its -f. */
	while (r == 0 && (option = getopt_long_only(argc, argv,
				  options->protocol == 3 ? SHORT_OPTIONS_3 : SHORT_OPTIONS,
				  long_options, NULL)) != -1) {
		switch (option) {
		case 'a':
			options->apply_path = optarg;
			break;
		case 'c':
			options->config_path = optarg;
			break;
		case 'd':
			r = set_mode(options, MODE_BACKGROUND, error);
			break;
		case 'f':
			r = set_mode(options, MODE_FOREGROUND, error);
			break;
		case 'h':
		case 'v':
			options->mode = option == 'h' ? MODE_HELP : MODE_VERSION;
			return 0;
		case 'm':
		case 'x':
			if (optarg)
				r = set_metrics(options, optarg, error);
			else
				options->is_multiuser = true;
			break;
		case 'M':
			options->is_multiuser = true;
			break;
		case 'p':
			break;
		case 'q':
			is_quit = true;
			break;
		case 'S':
			options->is_partitioned = true;
			break;
		case 'g':
			options->is_software = true;
			break;
		case 's':
			options->is_strict = true;
			break;
		default:
			r = error_message_set(error, -EINVAL, "unknown option or missing value");
		}
	}
	options->command = argv + optind;
	if (r == 0 && is_quit)
		r = set_quit(options, options->command, error);
	return r < 0 ? r : check_combination(options, &protocol, error);
}
