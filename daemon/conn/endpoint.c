/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sockets of namespaces. Loop thread.
 *
 * Invariant: each path lies below the daemon's directory, in which no other user can write.
 */

#include "endpoint.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "acceptor.h"
#include "bounds.h"
#include "daemon/text/directory.h"
#include "daemon/ask/control_socket.h"
#include "daemon/state/daemon.h"
#include "daemon/state/groups.h"
#include "daemon/state/namespace.h"

struct endpoint {
	struct acceptor acceptor;
	char path[SOCKET_PATH_MAX + 1];      /* of the socket */
	char directory[SOCKET_PATH_MAX + 1]; /* of the namespace */
	char server[SOCKET_PATH_MAX + 1];    /* the directory of the server */
	bool has_link;                       /* the server's directory has the socket, too */
};

/* ---- paths */

static int name_paths(struct endpoint *endpoint, const struct daemon *daemon, const char *server,
	const char *name, struct error_message *error)
{
	const char *pipe = daemon->config.pipe_directory;
	size_t length = strlen(pipe) + strlen(server) + strlen(name) + strlen("///control");

	if (length > SOCKET_PATH_MAX)
		return error_message_set(error, -ENAMETOOLONG,
			"The path %s/%s/%s/control has %zu bytes, more than the system's limit of "
			"%d: choose shorter names, or a CUDA_MPS_PIPE_DIRECTORY with a shorter "
			"path",
			pipe, server, name, length, SOCKET_PATH_MAX);
	stpcpy(stpcpy(stpcpy(endpoint->server, pipe), "/"), server);
	stpcpy(stpcpy(stpcpy(endpoint->directory, endpoint->server), "/"), name);
	stpcpy(stpcpy(endpoint->path, endpoint->directory), "/control");
	return 0;
}

static int make_directory(const char *path, struct error_message *error)
{
	_cleanup_close_ int fd = directory_open(path, "CUDA_MPS_PIPE_DIRECTORY", error);

	if (fd < 0)
		return fd;
	return directory_check_private(fd, path, "CUDA_MPS_PIPE_DIRECTORY", error);
}

static void name_link(
	const struct endpoint *endpoint, const char *name, char path[SOCKET_PATH_MAX + 1])
{
	/* It is shorter than the path of the socket. */
	(void)snprintf(
		path, SOCKET_PATH_MAX + 1, "%.*s/%s", SOCKET_PATH_MAX - 9, endpoint->server, name);
}

/* The socket gets its second name in one step, as the daemon's own does. */
static int make_link(struct endpoint *endpoint, struct error_message *error)
{
	char temporary[SOCKET_PATH_MAX + 1], path[SOCKET_PATH_MAX + 1];

	name_link(endpoint, ".socket", temporary);
	name_link(endpoint, "control", path);
	unlink(temporary);
	if (link(endpoint->path, temporary) < 0 || rename(temporary, path) < 0)
		return error_message_set(
			error, -errno, "Cannot make %s: %s", path, strerror(errno));
	endpoint->has_link = true;
	return 0;
}

static void remove_files(const struct endpoint *endpoint, bool is_forgotten)
{
	char path[SOCKET_PATH_MAX + 1];

	name_link(endpoint, "control", path);
	unlink(endpoint->path);
	if (endpoint->has_link)
		unlink(path);
	if (!is_forgotten)
		return;
	rmdir(endpoint->directory);
	rmdir(endpoint->server);
}

/* ---- the socket */

static void on_closed(uv_handle_t *handle)
{
	struct acceptor *acceptor = handle->data;

	free(container_of(acceptor, struct endpoint, acceptor));
}

static int listen_at(struct endpoint *endpoint, struct daemon *daemon, uint32_t entry,
	struct error_message *error)
{
	_cleanup_close_ int fd = acceptor_bind(endpoint->path, error);
	int r;

	if (fd < 0)
		return fd;
	acceptor_refuse_descriptors(fd);
	r = acceptor_start(&endpoint->acceptor, daemon, fd, entry);
	if (r < 0)
		return error_message_set(
			error, r, "Cannot watch %s: %s", endpoint->path, strerror(-r));
	TAKE_FD(fd);
	return 0;
}

int endpoint_open(struct daemon *daemon, const char *server, const char *name, uint32_t entry,
	struct endpoint **ret_endpoint, struct error_message *error)
{
	struct endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int r;

	if (!endpoint)
		return error_message_set(error, -ENOMEM, "The daemon is out of memory");
	r = name_paths(endpoint, daemon, server, name, error);
	if (r == 0)
		r = make_directory(endpoint->server, error);
	if (r == 0)
		r = make_directory(endpoint->directory, error);
	if (r == 0)
		r = listen_at(endpoint, daemon, entry, error);
	if (r < 0) {
		free(endpoint);
		return r;
	}
	if (strcmp(name, NAMESPACE_DEFAULT) == 0)
		r = make_link(endpoint, error);
	if (r < 0)
		endpoint_close(endpoint, true);
	else
		*ret_endpoint = endpoint;
	return r;
}

void endpoint_close(struct endpoint *endpoint, bool is_forgotten)
{
	int fd = endpoint->acceptor.fd;

	remove_files(endpoint, is_forgotten);
	acceptor_stop(&endpoint->acceptor, on_closed);
	close(fd);
}

/* ---- what a daemon that died has left */

static bool is_namespace(const struct daemon *daemon, const char *server, const char *name)
{
	char full[GROUP_NAME_MAX];
	const struct group *group;

	if (snprintf(full, sizeof(full), "%s/%s", server, name) >= (int)sizeof(full))
		return false;
	group = groups_find(&daemon->groups, full);
	return group && group->namespace;
}

/* Another daemon may have its directory below this one's, and then it listens there. */
static bool remove_socket(int folder, const char *path)
{
	char whole[sizeof("/proc/self/fd/") + 16 + NAME_MAX + sizeof("/control")];
	struct stat facts;

	if (fstatat(folder, path, &facts, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISSOCK(facts.st_mode))
		return false;
	snprintf(whole, sizeof(whole), "/proc/self/fd/%d/%s", folder, path);
	return control_socket_connect(whole, 0) == -ECONNREFUSED && unlinkat(folder, path, 0) == 0;
}

static void remove_stale_namespace(
	struct daemon *daemon, int folder, const char *server, const char *name)
{
	char path[NAME_MAX + sizeof("/control")];

	snprintf(path, sizeof(path), "%s/control", name);
	if (*name == '.' || is_namespace(daemon, server, name) || !remove_socket(folder, path))
		return;
	unlinkat(folder, name, AT_REMOVEDIR);
	log_control(
		&daemon->logs, "Removed the directory %s/%s of a daemon that died", server, name);
}

static void remove_stale_server(struct daemon *daemon, int pipe, const char *server)
{
	int fd = openat(pipe, server, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!folder) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((entry = readdir(folder)))
		remove_stale_namespace(daemon, fd, server, entry->d_name);
	/* If something else is in the directory, it stays. */
	if (!is_namespace(daemon, server, NAMESPACE_DEFAULT) && remove_socket(fd, "control"))
		unlinkat(pipe, server, AT_REMOVEDIR);
	closedir(folder);
}

void endpoints_remove_stale(struct daemon *daemon)
{
	DIR *pipe = opendir(daemon->config.pipe_directory);
	const struct dirent *entry;

	if (!pipe)
		return;
	while ((entry = readdir(pipe)))
		if (*entry->d_name != '.')
			remove_stale_server(daemon, dirfd(pipe), entry->d_name);
	closedir(pipe);
}
