/* SPDX-License-Identifier: Apache-2.0 */

/*
 * mps-server: one process per user, started by mps-control. It owns the GPUs' contexts
 * and works for that user's programs.
 *
 *   main thread    the loop: daemon, arrivals, deaths, signals (server.c)
 *   mps-starter    cuInit(), then ends
 *   mps-worker     one per client: its messages, its objects (worker.c)
 *   mps-waiter     for a sleeping client: waits in the driver (waiter.c)
 *   mps-departure  sends the clients to the next server, then the process ends (departure.c)
 *   mps-arrival    opens GPUs for clients of the server before (arrival.c)
 *   mps-deferred   one: driver calls that delay all clients (deferred.c)
 *
 * Its child, the process mps-receiver, takes descriptors from clients (receiver.h).
 *
 * Invariant: no library and no socket is opened before this process is the user for
 * which it works.
 */

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sysexits.h>

#include "arrival.h"
#include "cuda.h"
#include "disable.h"
#include "limit_text.h"
#include "orders.h"
#include "replay.h"
#include "server.h"
#include "worker.h"
#include "server/util/log.h"
#include "server/util/privileges.h"
#include "server/util/sigbus_guard.h"
#include "server/session/receiver.h"
#include "server/schedule/elastic.h"
#include "server/share/eviction.h"
#include "server/stream/printf_capture.h"
#include "server/link/device_frame.h"

/* One pool for each worker would keep the freed memory of its client: sixteen pools or more. */
#define MALLOC_ARENAS 4
/*
 * Larger blocks go back to the system when they are freed. Without this the limit rises to
 * 32 MiB as the driver's copies of code are allocated and freed, and the pools keep
 * gigabytes of holes.
 */
#define MALLOC_MMAP_BYTES (256 << 10)

/* The driver's own cleanup must end, too. */
#define EXIT_ALARM_S 10

static const char usage[] = "usage: mps-server --uid UID [--gid GID] [--multiuser] [--successor]\n"
			    "       mps-server --devices | -v\n"
			    "Started by mps-control for each user; not to be run by hand.\n";

static bool parse_id(const char *text, unsigned *ret_id)
{
	uint64_t value;

	/* The highest value is not an ID: system calls take it as "none". */
	if (parse_number(text, UINT32_MAX - 1, &value) < 0)
		return false;
	*ret_id = (unsigned)value;
	return true;
}

struct options {
	unsigned uid, gid;
	bool has_uid, is_multiuser, is_successor;
};

static bool parse_options(int argc, char **argv, struct options *options)
{
	bool is_good = true;

	for (int i = 1; i < argc && is_good; i++) {
		const char *name = argv[i], *value = argv[i + 1];

		if (strcmp(name, "--multiuser") == 0) {
			options->is_multiuser = true;
			continue;
		}
		if (strcmp(name, "--successor") == 0) {
			options->is_successor = true;
			continue;
		}
		i++;
		if (value && strcmp(name, "--uid") == 0)
			is_good = options->has_uid = parse_id(value, &options->uid);
		else if (value && strcmp(name, "--gid") == 0)
			is_good = parse_id(value, &options->gid);
		else
			is_good = false;
	}
	return is_good && options->has_uid;
}

/* The program of this process, also after an upgrade has replaced its file. */
static const char *own_program(void)
{
	static const char link[] = "/proc/self/exe";

	/* A container may have no /proc. */
	return access(link, X_OK) == 0 ? link : (const char *)getauxval(AT_EXECFN);
}

/* Every client needs a few descriptors. */
static void raise_limits(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static void report_unknown_words(void)
{
	const char *at = NULL, *word;
	int length;

	while ((word = disable_next_unknown(&at, &length)))
		log_line(DISABLE_UNKNOWN, length, word);
}

int main(int argc, char **argv)
{
	static struct server server;
	struct options options = {.gid = (unsigned)-1};
	int r;

	if (argc == 2 && (strcmp(argv[1], "-v") == 0 || strcmp(argv[1], "--version") == 0)) {
		printf(VERSION_LINE "\n", CUDA_VERSION);
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], RECEIVER_OPTION) == 0)
		return receiver_run(STDIN_FILENO);
	if (argc == 2 && strcmp(argv[1], "--devices") == 0) {
		log_init();
		/* Skips the driver's cleanup. */
		_exit(device_frames_print());
	}
	if (!parse_options(argc, argv, &options)) {
		fputs(usage, stderr);
		return 2;
	}
	/*
	 * The daemon may have started this process under another name than the file's, for ps and
	 * pgrep.
	 */
	prctl(PR_SET_NAME, program_invocation_short_name);
	mallopt(M_ARENA_MAX, MALLOC_ARENAS);
	mallopt(M_MMAP_THRESHOLD, MALLOC_MMAP_BYTES);
	mallopt(M_TRIM_THRESHOLD, MALLOC_MMAP_BYTES);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigbus_guard_init();
	log_init();
	if (privileges_take(options.uid, options.gid, options.is_multiuser) < 0)
		return EX_NOUSER; /* The daemon does not try again, nor after EX_UNAVAILABLE. */
	raise_limits();
	log_line("Startup");
	r = receiver_start(own_program());
	if (r < 0)
		log_line("Cannot start the process that receives descriptors: %s. The next client "
			 "that sends one tries again",
			strerrordesc_np(-r));
	report_unknown_words();
	worker_init();
	elastic_init();
	eviction_init();
	replay_init();
	if (printf_capture_init() < 0)
		log_line(
			"Cannot capture the output of kernels, which is lost: %s", strerror(errno));
	r = server_init(&server, options.uid, options.is_multiuser, &orders_ops);
	if (r < 0)
		return r == -ELIBACC || r == -ELIBBAD ? EX_UNAVAILABLE : 1;
	if (options.is_successor)
		arrivals_expect(&server);
	server_run(&server);
	alarm(EXIT_ALARM_S);
	server_fini(&server);
	receiver_stop();
	log_line("Exiting");
	return 0;
}
