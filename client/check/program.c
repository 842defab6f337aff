/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds the program, and what the kernel does with it. Main thread.
 *
 * Invariant: the program itself never runs.
 */

#include "program.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include "find_cuda.h"
#include "quote.h"

/* As the kernel: an interpreter may itself be a script. */
#define SCRIPTS_MAX 5

#define PATH_DEFAULT "/usr/local/bin:/bin:/usr/bin"

/* Commands that start a program without the variables of mps-run. */
static const char *const droppers[] = {"doas", "pkexec", "su", "sudo"};
/* And elsewhere. */
static const char *const senders[] = {"docker", "podman", "ssh"};

static bool is_executable(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static bool find_in_path(const char *name, char path[PATH_MAX])
{
	const char *folders = getenv("PATH");

	for (folders = folders ? folders : PATH_DEFAULT; *folders;) {
		size_t length = strcspn(folders, ":");
		int n = snprintf(path, PATH_MAX, "%.*s%s%s", (int)MIN(length, (size_t)PATH_MAX),
			folders, length > 0 ? "/" : "", name);

		if (n < PATH_MAX && is_executable(path))
			return true;
		folders += length + (folders[length] != '\0');
	}
	return false;
}

static bool find_program(const char *name, char path[PATH_MAX], struct findings *findings)
{
	struct quoted quoted;

	if (!strchr(name, '/')) {
		if (find_in_path(name, path))
			return true;
		findings_add(findings,
			"no program %s is in the folders of PATH: give the path of its file",
			quote(&quoted, name));
		return false;
	}
	if (snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && is_executable(path))
		return true;
	findings_add(findings,
		"%s is not a file that you may execute: check its path and its permissions",
		quote(&quoted, name));
	return false;
}

/* Reads the interpreter in the first line of a script. */
static bool read_interpreter(const struct elf_file *file, char path[PATH_MAX])
{
	const char *at = (const char *)file->bytes, *end = at + MIN(file->size, (size_t)PATH_MAX);
	size_t length = 0;

	if (file->size < 3 || at[0] != '#' || at[1] != '!')
		return false;
	for (at += 2; at < end && (*at == ' ' || *at == '\t'); at++)
		continue;
	while (at + length < end && !strchr(" \t\r\n", at[length]))
		length++;
	if (length == 0 || length >= PATH_MAX)
		return false;
	memcpy(path, at, length);
	path[length] = '\0';
	return true;
}

/* `env NAME': the interpreter is found in PATH. */
static bool is_env(const char *path)
{
	return strcmp(basename(path), "env") == 0;
}

/* The word after `env' in the first line of a script. */
static bool read_env_word(const struct elf_file *file, char word[NAME_MAX])
{
	char line[PATH_MAX], *rest = NULL;
	size_t size = MIN(file->size, sizeof(line) - 1);

	memcpy(line, file->bytes, size);
	line[size] = '\0';
	line[strcspn(line, "\n")] = '\0';
	strtok_r(line, " \t\r", &rest);
	for (char *next; (next = strtok_r(NULL, " \t\r", &rest));)
		if (*next != '-' && !strchr(next, '=') && !is_env(next) && *next != '#')
			return snprintf(word, NAME_MAX, "%s", next) < NAME_MAX;
	return false;
}

/* Replaces a script by its interpreter. False: the file is not a script with a usable first line.
 */
static bool follow_script(struct program *program)
{
	char path[PATH_MAX], word[NAME_MAX];

	if (!read_interpreter(&program->file, path))
		return false;
	if (is_env(path) && read_env_word(&program->file, word) && !find_in_path(word, path))
		return false;
	if (!is_executable(path))
		return false;
	memcpy(program->path, path, sizeof(path));
	return true;
}

static void report_unusable(const struct program *program, int r, struct findings *findings)
{
	struct quoted quoted;
	const char *path = quote(&quoted, program->path);

	switch (r) {
	case ELF_FILE_32:
		findings_add(findings,
			"%s is a 32-bit program, for which the client library does not exist: "
			"build it "
			"for 64 bits",
			path);
		break;
	case ELF_FILE_MACHINE:
		findings_add(findings,
			"%s is for another kind of machine: use its build for this one", path);
		break;
	case ELF_FILE_NONE:
		findings_add(findings,
			"%s is neither an ELF file nor a script whose first line names an "
			"interpreter: give the path of a program",
			path);
		break;
	case ELF_FILE_DAMAGED:
		findings_add(findings, "%s is a damaged ELF file: install it again", path);
		break;
	default:
		findings_add(findings,
			"%s cannot be read (%s): run the check as a user that may "
			"read it",
			path, strerror(-r));
	}
}

bool program_open(struct program *program, char *const *command, struct findings *findings)
{
	struct quoted quoted[2];
	int r;

	*program = (struct program){0};
	if (!find_program(command[0], program->path, findings))
		return false;
	r = elf_file_open(&program->file, program->path);
	for (unsigned i = 0; i < SCRIPTS_MAX && r == ELF_FILE_NONE; i++) {
		char script[PATH_MAX];

		memcpy(script, program->path, sizeof(script));
		if (!follow_script(program))
			break;
		findings_note("%s is a script that %s interprets: the lines below are about the "
			      "interpreter",
			quote(&quoted[0], script), quote(&quoted[1], program->path));
		elf_file_close(&program->file);
		r = elf_file_open(&program->file, program->path);
	}
	if (r != 0)
		report_unusable(program, r, findings);
	return r == 0;
}

void program_close(struct program *program)
{
	elf_file_close(&program->file);
}

/* Whether the kernel ignores what the file's mode and capabilities grant. */
static bool is_without_grants(const char *path)
{
	struct statvfs fs;

	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
	       (statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOSUID));
}

/* The loader ignores LD_PRELOAD in a program that runs with more rights than its caller. */
static void check_rights(const struct program *program, struct findings *findings)
{
	const mode_t setgid = S_ISGID | S_IXGRP;
	const char *why = NULL;
	struct quoted quoted;
	struct stat st;

	if (stat(program->path, &st) < 0 || is_without_grants(program->path) ||
		find_cuda_is_replaced())
		return;
	if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
		why = "is setuid";
	else if ((st.st_mode & setgid) == setgid && st.st_gid != getgid())
		why = "is setgid";
	else if (getuid() != 0 && getxattr(program->path, "security.capability", NULL, 0) > 0)
		why = "has file capabilities";
	if (why)
		findings_add(findings,
			"%s %s, so the loader ignores LD_PRELOAD: run a copy of the file without "
			"these rights, as a user that has them",
			quote(&quoted, program->path), why);
}

/* `env -i', `env -', `env -u LD_PRELOAD'. */
static bool does_env_drop(char *const *command)
{
	for (command++; *command && **command == '-'; command++)
		if (!strcmp(*command, "-") || !strcmp(*command, "-i") ||
			!strcmp(*command, "--ignore-environment") ||
			!strcmp(*command, "-uLD_PRELOAD") ||
			!strcmp(*command, "--unset=LD_PRELOAD") ||
			(!strcmp(*command, "-u") && command[1] &&
				!strcmp(command[1], "LD_PRELOAD")))
			return true;
	return false;
}

static bool is_among(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

static bool does_drop_preload(char *const *command)
{
	const char *name = basename(command[0]);

	if (is_among(senders, ARRAY_SIZE(senders), name))
		return true;
	/* The loader then needs no variable. */
	if (find_cuda_is_replaced())
		return false;
	return is_among(droppers, ARRAY_SIZE(droppers), name) ||
	       (is_env(name) && does_env_drop(command));
}

void program_check_preload(
	const struct program *program, char *const *command, struct findings *findings)
{
	struct quoted quoted;

	if (does_drop_preload(command))
		findings_add(findings,
			"%s starts its program without the LD_PRELOAD of mps-run: put mps-run "
			"between the two, directly before the program",
			quote(&quoted, command[0]));
	check_rights(program, findings);
}
