/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs the loader of the program with --list. Main thread.
 *
 * Invariant: a loader runs only if other users cannot have written its file.
 */

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "checks.h"
#include "clock.h"
#include "quote.h"

#define OUTPUT_MAX (1u << 20)
#define LIST_MS 10000
#define LINE_SIZE 1024

/* Why a loader would not start the program with the client library. */
enum {
	LOADER_FAILS = 1, /* it has not listed the files */
	LOADER_DROPS,     /* the client library is not among them */
	LOADER_UNMET,     /* a file needs versions of symbols that another one lacks */
};

/* What the loader has written; one program is checked in a process. */
static struct output {
	char bytes[OUTPUT_MAX];
	size_t size;
} output;

static bool is_safe(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && (st.st_uid == 0 || st.st_uid == geteuid()) &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* The loader of glibc that loads the program; NULL after a finding. */
static const char *find_loader(const struct program *program, struct findings *findings)
{
	const char *loader = elf_file_interpreter(&program->file);
	struct quoted quoted[2];

	quote(&quoted[0], program->path);
	if (!loader) {
		findings_add(findings,
			"%s is statically linked, so no loader loads the client library: link it "
			"dynamically with libc (without -static)",
			quoted[0].text);
		return NULL;
	}
	quote(&quoted[1], loader);
	if (strncmp(basename(loader), "ld-musl-", strlen("ld-musl-")) == 0)
		findings_add(findings,
			"%s is linked with musl (loader %s), but the client library needs glibc: "
			"use a build of the program for glibc",
			quoted[0].text, quoted[1].text);
	else if (strncmp(basename(loader), "ld-linux", strlen("ld-linux")) != 0)
		findings_add(findings,
			"%s has the loader %s, but the client library needs glibc's: use a build "
			"of the program for glibc",
			quoted[0].text, quoted[1].text);
	else if (!is_safe(loader))
		findings_add(findings,
			"%s has the loader %s, which is missing or which other users can change: "
			"install glibc, or use a build of the program for this system",
			quoted[0].text, quoted[1].text);
	else
		return loader;
	return NULL;
}

static void run_loader(const char *loader, const char *path, const struct preload *preload, int out)
{
	if (setenv("LD_PRELOAD", preload->preload, 1) < 0 ||
		setenv("LD_LIBRARY_PATH", preload->library_path, 1) < 0 ||
		dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
		_exit(127);
	execl(loader, loader, "--list", path, (char *)NULL);
	_exit(127);
}

/* False: the loader hangs, or says too much. */
static bool read_output(int fd)
{
	struct pollfd poller = {.fd = fd, .events = POLLIN};
	uint64_t began = now_ms(), passed = 0;
	bool has_ended = false;

	while (!has_ended && output.size < sizeof(output.bytes) - 1 && passed < LIST_MS &&
		poll(&poller, 1, (int)(LIST_MS - passed)) != 0) {
		ssize_t n = read(
			fd, output.bytes + output.size, sizeof(output.bytes) - 1 - output.size);

		has_ended = n == 0 || (n < 0 && errno != EINTR);
		output.size += n > 0 ? (size_t)n : 0;
		passed = now_ms() - began;
	}
	output.bytes[output.size] = '\0';
	return has_ended;
}

/* The output and errors of the loader. 0: it has listed the files; LOADER_FAILS; -errno. */
static int ask_loader(
	const char *loader, const struct program *program, const struct preload *preload)
{
	_cleanup_close_ int in = -EBADF, out = -EBADF;
	int fds[2], status = 0;
	pid_t pid;

	if (pipe(fds) < 0)
		return -errno;
	in = fds[0];
	out = fds[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		run_loader(loader, program->path, preload, out);
	closep(&out);
	out = -EBADF;
	if (!read_output(in))
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : LOADER_FAILS;
}

/* The path in a line of the list: "NAME => PATH (ADDRESS)" or "PATH (ADDRESS)"; NULL: no path. */
static char *path_in(char *line)
{
	char *arrow = strstr(line, " => "), *end = strrchr(line, '(');
	char *path = arrow ? arrow + 4 : line + strspn(line, "\t ");

	if (!end || end == path || end[-1] != ' ' || *path != '/')
		return NULL;
	end[-1] = '\0';
	return path;
}

static bool is_libc(const char *path)
{
	static const char *const names[] = {"libc.so.", "libdl.so.", "libpthread.so.", "ld-linux"};
	const char *name = basename(path);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strncmp(name, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

static bool is_same_file(const char *path, const char *other)
{
	struct stat st, other_st;

	return stat(path, &st) == 0 && stat(other, &other_st) == 0 &&
	       st.st_dev == other_st.st_dev && st.st_ino == other_st.st_ino;
}

/*
 * Moves the paths to the front of the output, a line each, and says whether the client library
 * was among them.
 */
static bool keep_paths(const char *library)
{
	char *rest = NULL, *to = output.bytes;
	bool is_there = false;

	for (char *line = strtok_r(output.bytes, "\n", &rest); line;
		line = strtok_r(NULL, "\n", &rest)) {
		const char *path = path_in(line);
		size_t length = path ? strlen(path) : 0;

		if (path && is_same_file(path, library)) {
			is_there = true;
		} else if (path && !is_libc(path)) {
			memmove(to, path, length);
			to[length] = '\n';
			to += length + 1;
		}
	}
	*to = '\0';
	return is_there;
}

/*
 * The loader lists the files although one of them lacks a version of symbols that another one
 * needs; it would not start the program. NULL: none lacks one.
 */
static const char *find_unmet_version(void)
{
	for (const char *at = output.bytes; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		size_t length = strcspn(at, "\n");
		const char *end = memmem(at, length, "' not found (required by ", 25);

		/* A weak version may be absent. */
		if (end && memmem(at, length, ": version `", 11))
			return at;
	}
	return NULL;
}

/*
 * The first line that is not of the list, which is the loader's complaint. A question mark
 * replaces each byte that a terminal would interpret.
 */
static void find_complaint(char *complaint, size_t size)
{
	const char *unmet = find_unmet_version();
	const char *at = unmet ? unmet : output.bytes;
	size_t length;

	while (*at == '\t')
		at += strcspn(at, "\n") + (strchr(at, '\n') != NULL);
	length = MIN(strcspn(at, "\n"), size - 1);
	for (size_t i = 0; i < length; i++)
		if (at[i] >= ' ' && at[i] < 0x7f)
			complaint[i] = at[i];
		else
			complaint[i] = '?';
	complaint[length] = '\0';
	if (length == 0)
		snprintf(complaint, size, "nothing");
}

static void report(
	const struct program *program, int r, const char *complaint, struct findings *findings)
{
	struct quoted quoted;

	quote(&quoted, program->path);
	if (r < 0)
		findings_add(
			findings, "the loader cannot be started (%s): try again", strerror(-r));
	else if (r == LOADER_DROPS)
		findings_add(findings,
			"the loader of %s drops the LD_PRELOAD of mps-run and says: %s: make the "
			"client library a file that you may read and execute",
			quoted.text, complaint);
	else if (r == LOADER_UNMET)
		findings_add(findings,
			"the loader of %s does not start it with the client library and says: %s: "
			"use "
			"builds for the libc of this system",
			quoted.text, complaint);
	else
		findings_add(findings,
			"the loader of %s fails and says: %s: install the library that is missing "
			"or damaged",
			quoted.text, complaint);
}

bool loader_list(const struct program *program, const struct preload *preload,
	struct findings *findings, char **ret_paths)
{
	const char *loader = find_loader(program, findings);
	char complaint[LINE_SIZE];
	int r;

	if (!loader)
		return false;
	r = ask_loader(loader, program, preload);
	find_complaint(complaint, sizeof(complaint));
	if (r == 0 && find_unmet_version())
		r = LOADER_UNMET;
	if (r == 0 && !keep_paths(preload->library))
		r = LOADER_DROPS;
	if (r != 0) {
		report(program, r, complaint, findings);
		return false;
	}
	*ret_paths = output.bytes;
	return true;
}
