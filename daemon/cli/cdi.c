/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A specification of the Container Device Interface: the device mps.io/client=all
 * makes the programs of a container clients. main() only.
 *
 * Invariant: an existing file is replaced as a whole or not at all.
 */

#include "cdi.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/text/directory.h"
#include "daemon/text/json.h"

/* The newest version that the podman 4.3 of Debian 12 accepts; newer ones add nothing for us. */
#define CDI_VERSION "0.5.0"
#define CDI_KIND "mps.io/client"

/* Where a container has the client library's folder; in the place of a package in the image. */
#define CONTAINER_LIBRARY "/usr/lib/mps"
#define LIBRARY_NAME "libmpsclient.so"

struct cdi {
	const char *pipe_directory;
	char library[PATH_MAX]; /* the folder of the client library */
	const char *output;     /* NULL: standard output */
};

/* `no_exec' is NULL if programs of the folder may be executed. */
static json_t *cdi_mount(const char *from, const char *to, const char *no_exec)
{
	return json_pack("{s:o s:o s:[s s s s* s]}", "hostPath", json_text(from), "containerPath",
		json_text(to), "options", "ro", "nosuid", "nodev", no_exec, "bind");
}

/* Without LD_LIBRARY_PATH: a variable replaces that of the image, which may need its own folders.
 */
static json_t *cdi_edits(const struct cdi *cdi)
{
	return json_pack("{s:[s s s] s:[o o]}", "env",
		"CUDA_MPS_PIPE_DIRECTORY=" PIPE_DIRECTORY_DEFAULT,
		"LD_PRELOAD=" CONTAINER_LIBRARY "/" LIBRARY_NAME, "MPS_CLIENT_REQUIRE=1", "mounts",
		cdi_mount(cdi->pipe_directory, PIPE_DIRECTORY_DEFAULT, "noexec"),
		cdi_mount(cdi->library, CONTAINER_LIBRARY, NULL));
}

/* The specification as text; the caller frees it. */
static char *cdi_text(const struct cdi *cdi)
{
	return json_write(json_pack("{s:s s:s s:[{s:s s:o}]}", "cdiVersion", CDI_VERSION, "kind",
		CDI_KIND, "devices", "name", "all", "containerEdits", cdi_edits(cdi)));
}

/* ---- the folder of the client library */

static int set_library(struct cdi *cdi, const char *folder)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/" LIBRARY_NAME, folder) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	if (access(path, R_OK) < 0)
		return -errno;
	return realpath(folder, cdi->library) ? 0 : -errno;
}

/* In an installation, then in the build folder, as mps-run does. */
static int find_library(struct cdi *cdi, struct error_message *error)
{
	static const char *const places[] = {
		"../lib/mps/" LIBRARY_NAME, "../lib/" LIBRARY_NAME, NULL};
	char path[PATH_MAX];
	bool is_found = directory_find_beside(places, path);

	*strrchr(path, '/') = '\0';
	if (is_found && set_library(cdi, path) == 0)
		return 0;
	return error_message_set(error, -ENOENT,
		"cannot find " LIBRARY_NAME
		" in %.200s: install it (package libmpsclient), or name its folder by --library",
		path);
}

static int cdi_read(struct cdi *cdi, char *const *arguments, struct error_message *error)
{
	const char *library = NULL;
	int r;

	for (; *arguments; arguments += 2) {
		const char **value = strcmp(arguments[0], "--output") == 0    ? &cdi->output
				     : strcmp(arguments[0], "--library") == 0 ? &library
									      : NULL;

		if (!value || !arguments[1])
			return error_message_set(error, -EINVAL,
				"cdi takes options only: cdi [--output FILE] [--library FOLDER]");
		*value = arguments[1];
	}
	if (!library)
		return find_library(cdi, error);
	r = set_library(cdi, library);
	return r == 0 ? 0
		      : error_message_set(
				error, r, "%.200s/" LIBRARY_NAME ": %s", library, strerror(-r));
}

/* ---- the file */

/* 0 or -errno. */
static int write_stream(FILE *file, const char *text)
{
	return fprintf(file, "%s\n", text) < 0 || fflush(file) != 0 ? -errno : 0;
}

/* Takes the descriptor. */
static int write_file(int fd, const char *text)
{
	_cleanup_fclose_ FILE *file = fdopen(fd, "w");
	int r;

	if (!file) {
		closep(&fd);
		return -ENOMEM;
	}
	r = write_stream(file, text);
	/* Engines of other users read it, too. */
	return r == 0 && fchmod(fd, 0644) < 0 ? -errno : r;
}

static int replace_file(const char *path, const char *text)
{
	char name[PATH_MAX];
	int fd, r;

	if (snprintf(name, sizeof(name), "%s.XXXXXX", path) >= (int)sizeof(name))
		return -ENAMETOOLONG;
	fd = mkstemp(name);
	if (fd < 0)
		return -errno;
	r = write_file(fd, text);
	if (r == 0 && rename(name, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(name);
	return r;
}

static int cdi_put(const struct cdi *cdi, const char *text, struct error_message *error)
{
	int r = cdi->output ? replace_file(cdi->output, text) : write_stream(stdout, text);

	if (r == 0)
		return 0;
	return error_message_set(error, r, "cannot write %.200s: %s",
		cdi->output ? cdi->output : "standard output", strerror(-r));
}

int cdi_run(const struct config *config, char *const *arguments)
{
	struct cdi cdi = {.pipe_directory = config->pipe_directory};
	_cleanup_free_ char *text = NULL;
	struct error_message error;
	int r = cdi_read(&cdi, arguments, &error);

	if (r == 0) {
		text = cdi_text(&cdi);
		r = text ? cdi_put(&cdi, text, &error)
			 : error_message_set(&error, -ENOMEM, "no memory");
	}
	if (r == 0)
		return EXIT_SUCCESS;
	fprintf(stderr, "mps-control: %s\n", error.text);
	return EXIT_FAILURE;
}
