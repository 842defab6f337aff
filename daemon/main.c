/* SPDX-License-Identifier: Apache-2.0 */

/*
 * mps-control: the control daemon and its command line. One thread, besides
 * those of async_close.h and reload.h.
 *
 * Invariant: the program that starts the daemon learns from the exit status,
 * and from a message, whether the daemon accepts connections.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "apply.h"
#include "frame.h"
#include "spec_hash.h"
#include "daemon/log/systemd.h"
#include "daemon/state/daemon.h"
#include "daemon/conn/listener.h"
#include "daemon/server/server.h"
#include "daemon/server/spawn.h"
#include "daemon/watch/exporter.h"
#include "daemon/watch/standard_input.h"
#include "daemon/module/apply_file.h"
#include "daemon/command/commands.h"
#include "daemon/command/config_apply.h"
#include "daemon/command/reload.h"
#include "daemon/cli/cdi.h"
#include "daemon/cli/check.h"
#include "daemon/cli/cli.h"
#include "daemon/cli/cli_top.h"
#include "daemon/cli/cli_trace.h"
#include "daemon/cli/options.h"
#include "daemon/cli/software.h"
#include "daemon/top/top.h"

/* The CUDA release whose client API the daemon serves, as the vendor's daemon prints it. */
#define BINARY_VERSION 13000

/* In columns like those of the daemon's commands: shell completion reads them. */
static void front_commands_print(void)
{
	printf("  %-59s  %s\n", "top" TOP_USAGE, TOP_HELP);
	printf("  %-59s  %s\n", "check-config [FILE]", "check a configuration file");
	printf("  %-59s  %s\n", "check-directory",
		"tell whether another daemon has the directory of the socket");
	printf("  %-59s  %s\n", "cdi [--output FILE] [--library FOLDER]",
		"write a CDI specification: container engines make clients by it");
}

static void print_help(void)
{
	puts("CUDA MPS Control for Linux. An open multi-process service.\n"
	     "\n"
	     "  Runs the CUDA programs of a user in one GPU context, so that their kernels run "
	     "side\n"
	     "  by side: see mps-control(1).\n"
	     "\n"
	     "mps-control [options] [command]");
	options_print();
	puts("\nThe front end executes these commands itself:\n");
	front_commands_print();
	puts("\nWithout options it sends the command, or each line of its standard input, to the "
	     "daemon:\n");
	commands_print();
	puts("\n"
	     "Environment: CUDA_MPS_PIPE_DIRECTORY (" PIPE_DIRECTORY_DEFAULT
	     "), CUDA_MPS_LOG_DIRECTORY\n"
	     "(" LOG_DIRECTORY_DEFAULT "), CUDA_VISIBLE_DEVICES, "
	     "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE,\n"
	     "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, CUDA_MPS_CLIENT_PRIORITY, "
	     "CUDA_MPS_PROTOCOL_VERSION,\n"
	     "MPS_BACKGROUND_FLOOR, MPS_CGROUP_ROOT, MPS_CLIENT_HOST_MIB, MPS_CUDA_LIBRARY, "
	     "MPS_DISABLE,\n"
	     "MPS_FOREGROUND_SLOWDOWN, MPS_GRACE_MS, MPS_GROUP_BY_CGROUP, MPS_IDLE_S,\n"
	     "MPS_KERNEL_LOG, MPS_LOG_MAX_MIB, MPS_METRICS_LISTEN, MPS_MOVE_ON_UPGRADE,\n"
	     "MPS_OVERSUBSCRIBE, MPS_OVERSUBSCRIBE_HOST, MPS_OVERSUBSCRIBE_STAY, MPS_SERVERS_MAX, "
	     "MPS_SERVER_ENV,\n"
	     "MPS_SERVER_USER, MPS_SOFT_LIMIT, MPS_SPARE_SERVER, MPS_SUBUID_FILE, MPS_TEST,\n"
	     "MPS_TRUST_UID: see mps-control(1).");
}

static void print_version(void)
{
	printf("CUDA MPS Control for Linux. Binary version: %d\n"
	       "Warpshare " MPS_VERSION ", protocol %d, spec %016llx\n",
		BINARY_VERSION, FRAME_VERSION, SPEC_HASH);
}

/* ---- the daemon */

/* Opens descriptors 0 to 2 if they are closed, so that no other file gets their numbers. */
static void reserve_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	closep(&fd);
}

/* A server needs several descriptors for each client, and inherits this limit. */
static void raise_fd_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/*
 * Forks the daemon. In the child it returns the pipe on which to report that
 * it is ready. In the parent it does not return.
 */
static int go_to_background(void)
{
	char byte = 0;
	int pair[2];
	pid_t pid;
	ssize_t n;

	/*
	 * Descriptors that the caller's shell left open would stay open as long as the daemon
	 * runs.
	 */
	syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0);
	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		close(pair[0]);
		setsid();
		return pair[1];
	}
	close(pair[1]);
	do
		n = read(pair[0], &byte, 1);
	while (n < 0 && errno == EINTR);
	_exit(n == 1 ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* Detaches from the terminal and reports to the parent. */
static void report_ready(int ready, const struct config *config)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	ssize_t n;

	if (config->protocol == 3)
		printf("To connect CUDA applications to this daemon, set "
		       "CUDA_MPS_PIPE_DIRECTORY=%s\n",
			config->pipe_directory);
	fflush(stdout);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		closep(&null);
	}
	n = write(ready, "", 1);
	(void)n;
	close(ready);
}

static int print_error(const struct error_message *error)
{
	fprintf(stderr, "mps-control: %s\n", error->text);
	return EXIT_FAILURE;
}

/* A service manager reads standard error, and scripts for NVIDIA's daemon standard output. */
static int report_taken(const struct config *config)
{
	puts("An instance of this daemon is already running");
	if (getenv("NOTIFY_SOCKET"))
		fprintf(stderr,
			"mps-control: Another daemon has the directory %s: end it first "
			"(mps-control quit)\n",
			config->pipe_directory);
	return EXIT_FAILURE;
}

static void log_start(struct daemon *daemon)
{
	log_control(&daemon->logs, "Starting control daemon using socket %s",
		daemon->config.socket_path);
	log_control(&daemon->logs,
		"To connect CUDA applications to this daemon, set %sCUDA_MPS_PIPE_DIRECTORY=%s",
		daemon->config.protocol == 3 ? "" : "env ", daemon->config.pipe_directory);
	log_control(&daemon->logs, "CUDA MPS Control binary version: %d", BINARY_VERSION);
}

static int open_log_files(struct daemon *daemon, enum mode mode, struct error_message *error)
{
	const struct log_options options = {
		.directory = daemon->config.log_directory,
		.echo = mode == MODE_FOREGROUND,
		.is_private = daemon_serves_others(daemon),
		.size_max = (uint64_t)daemon->config.log_max_mib << 20,
		.loop = &daemon->loop,
	};

	return log_files_open(&daemon->logs, &options, error);
}

/* Opens everything, in an order in which a failure leaves nothing behind. */
static int open_daemon(struct daemon *daemon, enum mode mode, struct error_message *error)
{
	int r, fd = systemd_take_listener();

	if (fd < 0 && fd != -ENOENT)
		return error_message_set(error, fd,
			"Cannot use the socket that the service manager passed: %s: the daemon "
			"needs exactly one listening stream socket",
			strerror(-fd));
	r = settings_load(&daemon->environment, error);
	if (r < 0)
		return r;
	r = listener_open(daemon->listener, &daemon->config, fd, error);
	if (r != 0)
		return r;
	r = open_log_files(daemon, mode, error);
	if (r < 0)
		return r;
	daemon->logs.is_verbose = daemon->config.is_verbose;
	return daemon_start(daemon, error);
}

/* The daemon works without. */
static void listen_for_metrics(struct daemon *daemon)
{
	struct error_message error;

	if (exporter_listen(daemon, config_metrics_address(&daemon->config), &error) == 0)
		return;
	log_control(&daemon->logs, "%s", error.text);
	print_error(&error);
}

static bool has_adopted(const struct daemon *daemon)
{
	list_each (const struct server, server, &daemon->servers, link_in_daemon)
		if (!server->is_child)
			return true;
	return false;
}

/*
 * The servers and namespaces of the file of -a. A failure ends the daemon, unless clients of the
 * previous daemon would end, too.
 */
static int apply(struct daemon *daemon, const char *commands)
{
	struct error_message error;
	int r = commands ? apply_commands(daemon, commands, &error) : 0;

	if (r == 0)
		return EXIT_SUCCESS;
	log_control(&daemon->logs, "The file of -a cannot be applied: %s%s", error.text,
		has_adopted(daemon) ? ". The daemon goes on, for the servers of the previous one"
				    : "");
	if (has_adopted(daemon))
		return EXIT_SUCCESS;
	daemon_want_quit(daemon, 0);
	return print_error(&error);
}

static int run_daemon(struct daemon *daemon, enum mode mode, const char *commands)
{
	struct error_message error;
	int r, status, ready = -EBADF;

	reserve_standard_fds();
	raise_fd_limit();
	signal(SIGPIPE, SIG_IGN);
	/* The caller's umask may hide the socket's directory from other users. */
	umask(022);
	if (mode == MODE_BACKGROUND) {
		ready = go_to_background();
		if (ready < 0) {
			error_message_set(&error, ready, "Cannot fork: %s", strerror(-ready));
			return print_error(&error);
		}
	}
	r = open_daemon(daemon, mode, &error);
	if (r == LISTENER_TAKEN)
		return report_taken(&daemon->config);
	if (r < 0) {
		listener_remove_files(daemon->listener, &daemon->config);
		return print_error(&error);
	}
	if (chdir("/") < 0)
		return EXIT_FAILURE;
	log_start(daemon);
	config_apply_first(daemon);
	listen_for_metrics(daemon);
	status = apply(daemon, commands);
	if (mode == MODE_BACKGROUND && status == EXIT_SUCCESS)
		report_ready(ready, &daemon->config);
	else if (mode == MODE_FOREGROUND && daemon->config.protocol == 3)
		standard_input_watch(daemon);
	daemon_run(daemon);
	log_files_close(&daemon->logs);
	listener_close(daemon->listener);
	/* libuv would wait at the exit for threads that wait for names or for systemd. */
	if (uv_loop_alive(&daemon->loop))
		_exit(status);
	return status;
}

static void keep_line(void *arg, const char *line)
{
	struct error_message *error = arg;

	error_message_set(error, 0, "%s", line);
}

/* The front end needs the file only to find the daemon: an error in it is not its concern. */
static int load_file_for_cli(struct config_file *file, struct error_message *error)
{
	const struct config_report report = {keep_line, error};
	int r = config_file_read(file, &report);

	return file->is_required && r < 0 ? r : 0;
}

static int load_file_for_daemon(struct config_file *file, struct error_message *error)
{
	const struct config_report report = {check_config_print, NULL};

	if (config_file_read(file, &report) == 0)
		return 0;
	return error_message_set(error, -EINVAL,
		"The daemon does not start, as %.200s has an error: mend it, and check it with "
		"mps-control check-config",
		file->path);
}

/* Whether the command is this one of those that need no daemon. */
static bool is_command(const struct options *options, const char *name)
{
	return options->mode == MODE_CLI && *options->command &&
	       strcmp(options->command[0], name) == 0;
}

/* What needs no daemon, and what needs no correct configuration file. */
static bool run_without_daemon(const struct options *options, int *ret_status)
{
	if (options->mode == MODE_HELP || options->mode == MODE_VERSION) {
		options->mode == MODE_HELP ? print_help() : print_version();
		*ret_status = EXIT_SUCCESS;
		return true;
	}
	if (!is_command(options, "check-config"))
		return false;
	*ret_status = check_config_run(options->config_path, options->command + 1);
	return true;
}

static int run_front_end(const struct config *config, const struct options *options)
{
	if (is_command(options, "cdi"))
		return cdi_run(config, options->command + 1);
	if (is_command(options, "check-directory"))
		return check_directory_run(config, options->command + 1);
	if (is_command(options, "top"))
		return cli_top_run(config, options->command);
	if (cli_trace_wants(options->command))
		return cli_trace_run(config, options->command, options->is_strict);
	return cli_run(config, options->command,
		options->is_strict || (*options->command && !commands_end_well(*options->command,
								    options->protocol)));
}

int main(int argc, char **argv)
{
	static struct listener listener;
	static struct daemon daemon = {.listener = &listener};
	struct config_file *file = &daemon.config_file;
	struct config *config = &daemon.config;
	_cleanup_free_ char *commands = NULL;
	struct options options;
	struct error_message error;
	int r;

	if (options_read(&options, argc, argv, &error) < 0) {
		fprintf(stderr, "mps-control: %s: see mps-control -h\n", error.text);
		return EXIT_FAILURE;
	}
	if (run_without_daemon(&options, &r))
		return r;
	if (options.is_software && software_choose(&error) < 0)
		return print_error(&error);
	r = config_file_init(file, options.config_path, &error);
	if (r == 0)
		r = options.mode == MODE_CLI ? load_file_for_cli(file, &error)
					     : load_file_for_daemon(file, &error);
	if (r < 0 || config_load(config, &file->values, &error) < 0)
		return print_error(&error);
	if (options.mode == MODE_CLI)
		return run_front_end(config, &options);
	config->metrics_option = options.metrics;
	config->protocol = options.protocol;
	config->is_multiuser |= options.is_multiuser;
	config->is_partitioned |= options.is_partitioned;
	if (config->is_multiuser && config_load_server_user(config, &error) < 0)
		return print_error(&error);
	if (options.apply_path) {
		commands = apply_file_read(options.apply_path, &error);
		if (!commands)
			return print_error(&error);
	}
	spawn_init();
	return run_daemon(&daemon, options.mode, commands);
}
