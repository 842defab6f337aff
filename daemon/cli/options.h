/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPTIONS_H
#define OPTIONS_H

/*
 * The options of the command line: those of NVIDIA's control daemon and some
 * of our own. Used only in main().
 */

#include "daemon/text/error_message.h"

enum mode {
	MODE_CLI,
	MODE_BACKGROUND,
	MODE_FOREGROUND,
	MODE_HELP,
	MODE_VERSION,
};

struct options {
	enum mode mode;
	unsigned protocol;       /* of the vendor's daemon, 2 or 3 */
	bool is_strict;          /* the exit status is 1 if a command fails */
	bool is_multiuser;       /* one server for all users */
	bool is_partitioned;     /* SMs are divided into static partitions */
	bool is_software;        /* the software GPU instead of the NVIDIA driver */
	const char *apply_path;  /* -a: servers and namespaces; NULL: not given */
	const char *config_path; /* -c: the configuration file; NULL: the default */
	const char *metrics;     /* -m: the address of the metrics; NULL: not given */
	char *const *command;    /* the command, may be empty; within argv */
};

/* Reads argv and CUDA_MPS_PROTOCOL_VERSION. 0 or -EINVAL with an error message. */
int options_read(struct options *options, int argc, char **argv, struct error_message *error);

/* Prints the options' part of the help to standard output. */
void options_print(void);

#endif
