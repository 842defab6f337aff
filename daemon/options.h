/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPTIONS_H
#define OPTIONS_H

/*
 * The options of the command line, which are those of NVIDIA's control daemon
 * and some of our own. Used in main() alone.
 */

#include "error_message.h"

enum mode {
	MODE_CLI,
	MODE_BACKGROUND,
	MODE_FOREGROUND,
	MODE_HELP,
	MODE_VERSION,
};

struct options {
	enum mode mode;
	bool is_strict;       /* the front end fails where a command does */
	bool is_multiuser;    /* one server for all users */
	bool is_partitioned;  /* SMs are divided into static partitions */
	char *const *command; /* the command, or none; of argv */
};

/* Reads argv and CUDA_MPS_PROTOCOL_VERSION. 0 or -EINVAL with a reason. */
int options_read(struct options *options, int argc, char **argv, struct error_message *error);

/* The options' part of the usage, to standard output. */
void options_print(void);

#endif
