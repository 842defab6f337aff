/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The driver API leaves the program's process as it is: signal handlers and masks, the working
 * directory, umask, environment, locale, standard descriptors, and no child to wait for. Calls
 * succeed although a timer interrupts their system calls a thousand times a second.
 *
 * Builds with: -pthread
 */

#define NAME "process_state"

#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../helpers/graph_driver.h"

extern char **environ;

enum {
	SIGNALS = 64,
	LARGE = 48 << 20,
	REGISTERED = 1 << 20,
	ROUNDS = 5
};

static struct state {
	struct sigaction actions[SIGNALS + 1];
	sigset_t mask;
	struct stat standard[3];
	char directory[4096], *locale;
	mode_t umask;
	struct rlimit limits[RLIM_NLIMITS];
	char **environment, *variables[1024];
	size_t n_variables;
} before, after;

static atomic_uint n_alarms, n_children;
static atomic_bool has_waited;
static pthread_t waiter;

static void on_alarm(int number)
{
	(void)number;
	atomic_fetch_add(&n_alarms, 1);
}

static void on_child(int number)
{
	(void)number;
	atomic_fetch_add(&n_children, 1);
}

static void state_read(struct state *state)
{
	memset(state, 0, sizeof(*state));
	for (int i = 1; i <= SIGNALS; i++)
		sigaction(i, NULL, &state->actions[i]);
	pthread_sigmask(SIG_BLOCK, NULL, &state->mask);
	for (int i = 0; i < 3; i++) {
		must(fstat(i, &state->standard[i]) == 0, "a standard descriptor", __LINE__);
		/* The program's own output and other readers change these. */
		state->standard[i].st_size = state->standard[i].st_blocks = 0;
		state->standard[i].st_atim = state->standard[i].st_mtim =
			state->standard[i].st_ctim = (struct timespec){0};
	}
	must(getcwd(state->directory, sizeof(state->directory)) != NULL, "getcwd", __LINE__);
	state->locale = setlocale(LC_ALL, NULL);
	state->umask = umask(0);
	umask(state->umask);
	for (int i = 0; i < RLIM_NLIMITS; i++)
		getrlimit((__rlimit_resource_t)i, &state->limits[i]);
	state->environment = environ;
	while (environ[state->n_variables] && state->n_variables < 1024) {
		state->variables[state->n_variables] = environ[state->n_variables];
		state->n_variables++;
	}
}

static void count(void *arg)
{
	atomic_fetch_add((atomic_uint *)arg, 1);
}

/* ---- calls of every kind */

static void *wait_for_child(void *arg)
{
	(void)arg;
	while (pause() < 0 && atomic_load(&n_children) == 0)
		continue;
	atomic_store(&has_waited, true);
	return NULL;
}

static void copy_much(void)
{
	unsigned char *from = malloc(LARGE), *to = malloc(LARGE);
	CUdeviceptr device;

	must(from && to, "memory", __LINE__);
	for (size_t i = 0; i < LARGE; i++)
		from[i] = (unsigned char)(i * 7 >> 3);
	CHECK(cuMemAlloc(&device, LARGE));
	CHECK(cuMemcpyHtoD(device, from, LARGE));
	CHECK(cuMemcpyDtoH(to, device, LARGE));
	must(memcmp(from, to, LARGE) == 0, "the copy", __LINE__);
	CHECK(cuMemFree(device));
	free(from);
	free(to);
}

/* Private memory that the GPU accesses in place, beside a second thread. */
static void use_registered(void)
{
	void *bytes =
		mmap(NULL, REGISTERED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CUdeviceptr device;

	must(bytes != MAP_FAILED, "mmap", __LINE__);
	memset(bytes, 1, REGISTERED);
	CHECK(cuMemHostRegister(bytes, REGISTERED, CU_MEMHOSTREGISTER_DEVICEMAP));
	CHECK(cuMemHostGetDevicePointer(&device, bytes, 0));
	CHECK(cuMemsetD8(device, 5, REGISTERED));
	CHECK(cuCtxSynchronize());
	must(((unsigned char *)bytes)[REGISTERED - 1] == 5, "the GPU's write", __LINE__);
	CHECK(cuMemHostUnregister(bytes));
	munmap(bytes, REGISTERED);
}

static void call_everything(void)
{
	atomic_uint n_called = 0;
	CUmodule other;
	void *pinned;

	for (int i = 0; i < ROUNDS; i++) {
		CHECK(cuModuleLoadData(&other, image));
		CHECK(cuMemHostAlloc(&pinned, 3 << 20, 0));
		CHECK(cuLaunchHostFunc(stream, count, &n_called));
		CHECK(cuStreamSynchronize(stream));
		CHECK(cuMemFreeHost(pinned));
		CHECK(cuModuleUnload(other));
	}
	must(atomic_load(&n_called) == ROUNDS, "host functions", __LINE__);
	copy_much();
	use_registered();
}

static void compare(void)
{
	for (int i = 1; i <= SIGNALS; i++)
		must(before.actions[i].sa_handler == after.actions[i].sa_handler &&
				before.actions[i].sa_flags == after.actions[i].sa_flags,
			"the handler of a signal is as before", __LINE__);
	must(memcmp(&before.mask, &after.mask, sizeof(before.mask)) == 0, "the mask", __LINE__);
	must(memcmp(before.standard, after.standard, sizeof(before.standard)) == 0,
		"the standard descriptors", __LINE__);
	must(strcmp(before.directory, after.directory) == 0, "the directory", __LINE__);
	must(before.locale == after.locale || strcmp(before.locale, after.locale) == 0,
		"the locale", __LINE__);
	must(before.umask == after.umask, "umask", __LINE__);
	must(memcmp(before.limits, after.limits, sizeof(before.limits)) == 0, "the limits",
		__LINE__);
	must(before.environment == after.environment && before.n_variables == after.n_variables &&
			memcmp(before.variables, after.variables, sizeof(before.variables)) == 0,
		"the environment", __LINE__);
}

int main(void)
{
	const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {0};
	struct sigaction alarm_action = {.sa_handler = on_alarm};
	struct sigaction child_action = {.sa_handler = on_child};
	sigset_t blocked;

	/* Without SA_RESTART: system calls return EINTR. */
	sigaction(SIGALRM, &alarm_action, NULL);
	sigaction(SIGCHLD, &child_action, NULL);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	sigaddset(&blocked, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	umask(0031);
	state_read(&before);
	must(pthread_create(&waiter, NULL, wait_for_child, NULL) == 0, "a thread", __LINE__);
	setitimer(ITIMER_REAL, &often, NULL);
	setup();
	call_everything();
	setitimer(ITIMER_REAL, &never, NULL);
	must(atomic_load(&n_alarms) > 0, "the timer", __LINE__);
	must(atomic_load(&n_children) == 0, "no SIGCHLD", __LINE__);
	must(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "no child", __LINE__);
	state_read(&after);
	compare();
	atomic_store(&n_children, 1);
	/* A signal that comes just before its pause() does not end that. */
	while (!atomic_load(&has_waited)) {
		pthread_kill(waiter, SIGALRM);
		usleep(1000);
	}
	pthread_join(waiter, NULL);
	return finish();
}
