/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The matrix of contexts: what each driver call answers if the thread's current context is not the
 * context of the objects that the call names.
 *
 *     contexts --checks
 *     contexts [--jobs N] [--seconds N] [--hang-ms N] [--states NAME,NAME] [--call SYMBOL]
 *
 * Prints `SYMBOL STATE RESULT' as soon as a result is known: a CUresult, or a word. After N seconds
 * it ends with what it knows. On stderr: what the processes did, and how long it took. --checks
 * breaks what the spec states of arguments instead, and prints calls that do not say so.
 *
 * With the real driver, objects of a destroyed context are undefined. So worker processes make the
 * calls, and another one goes on after a call that crashes or hangs.
 *
 * Invariant: this process makes no driver call, so its children can.
 */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fixture.h"
#include "worker.h"

#define JOBS_MAX 64
#define SETUP_MS 20000
/* Calls for one process if objects of an ended context may crash it. */
#define BATCH_ENDED 64

static const char *const state_names[N_STATES] = {
	"own", "none", "null", "other", "dead", "stale", "reset"};

/* Calls [first, end) in a state, for one process. */
struct batch {
	enum state state;
	int first, end;
};

struct job {
	struct batch batch;
	pid_t pid;
	int fd; /* -1: the job has no process */
	enum step step;
	int call;
	bool has_begun;
	int n_done;
	long long started_ms, begun_ms, ended_ms, deadline_ms;
};

static int *results[N_STATES];
static struct batch *queue;
static int n_queued;
static struct job jobs[JOBS_MAX];
static int hang_ms = 1000;

static const char *const words[] = {
	"unknown", "absent", "fixture", "crash", "hang", "-", "refused"};

static long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void result_set(enum state state, int call, int result)
{
	results[state][call] = result;
	printf("%s %s ", calls[call].symbol, state_names[state]);
	if (result >= 0)
		printf("%d\n", result);
	else
		printf("%s\n", words[RESULT_UNKNOWN - result]);
	fflush(stdout);
}

static void queue_add(enum state state, int first, int end)
{
	while (first < end && results[state][first] != RESULT_UNKNOWN)
		first++;
	if (first == end)
		return;
	queue = realloc(queue, (n_queued + 1) * sizeof(*queue));
	if (!queue)
		abort();
	queue[n_queued++] = (struct batch){state, first, end};
}

static void job_start(struct job *job)
{
	struct batch batch = queue[--n_queued];
	pid_t parent = getpid();
	int fds[2];

	if (pipe(fds) < 0)
		abort();
	*job = (struct job){.batch = batch, .fd = fds[0], .started_ms = now_ms()};
	job->deadline_ms = job->started_ms + SETUP_MS;
	job->pid = fork();
	if (job->pid < 0)
		abort();
	if (job->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		close(fds[0]);
		worker_run(batch.state, batch.first, batch.end, results[batch.state], fds[1]);
	}
	close(fds[1]);
}

static void batch_halve(struct batch batch)
{
	int middle = (batch.first + batch.end) / 2;

	if (batch.end - batch.first == 1) {
		result_set(batch.state, batch.first, RESULT_REFUSED);
		return;
	}
	/* The first half comes first. */
	queue_add(batch.state, middle, batch.end);
	queue_add(batch.state, batch.first, middle);
}

/* The process has died or was killed in the middle of a step. */
static void job_blame(struct job *job, int result)
{
	enum state state = job->batch.state;

	if (!job->has_begun || job->step == STEP_END) {
		batch_halve(job->batch);
		return;
	}
	if (job->step == STEP_PREPARE)
		result_set(state, job->call, RESULT_FIXTURE);
	else if (job->step == STEP_CALL)
		result_set(state, job->call, result);
	queue_add(state, job->batch.first, job->batch.end);
}

static void job_describe(const struct job *job, const char *how)
{
	const struct batch *batch = &job->batch;
	long long now = now_ms();
	long long begun = job->begun_ms ? job->begun_ms : now;
	long long ended = job->ended_ms ? job->ended_ms : begun;

	fprintf(stderr,
		"contexts: %s, %s to %s: %d calls; start %lld ms, fixture %lld, rest %lld%s",
		state_names[batch->state], calls[batch->first].symbol, calls[batch->end - 1].symbol,
		job->n_done, begun - job->started_ms, ended - begun, now - ended, how);
	if (*how && job->has_begun && job->step != STEP_END && job->step != STEP_ENDED)
		fprintf(stderr, " %s %s", job->step == STEP_CALL ? "in" : "near",
			calls[job->call].symbol);
	fputc('\n', stderr);
}

static void job_end(struct job *job, bool is_late)
{
	int status;

	if (is_late)
		kill(job->pid, SIGKILL);
	close(job->fd);
	job->fd = -1;
	while (waitpid(job->pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (is_late) {
		job_describe(job, "; hang");
		job_blame(job, RESULT_HANG);
	} else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		job_describe(job, "; crash");
		job_blame(job, RESULT_CRASH);
	} else if (job->step == STEP_ENDED) {
		job_describe(job, "; refused");
		batch_halve(job->batch);
	} else {
		job_describe(job, "");
		queue_add(job->batch.state, job->batch.first, job->batch.end);
	}
}

static int step_limit_ms(const struct report *report)
{
	if (report->step != STEP_CALL)
		return SETUP_MS;
	/* To create or end a context takes a fraction of a second, more beside other processes. */
	return strstr(calls[report->call].symbol, "Ctx") ? 5 * hang_ms : hang_ms;
}

static void job_read(struct job *job)
{
	struct report report;
	ssize_t n = read(job->fd, &report, sizeof(report));

	if (n != sizeof(report)) {
		job_end(job, false);
		return;
	}
	if (!job->has_begun)
		job->begun_ms = now_ms();
	job->has_begun = true;
	job->step = report.step;
	job->call = report.call;
	job->deadline_ms = now_ms() + step_limit_ms(&report);
	if (report.step == STEP_DONE) {
		job->n_done++;
		result_set(job->batch.state, report.call, report.result);
	} else if (report.step == STEP_ENDED) {
		job->ended_ms = now_ms();
		if (report.result)
			fprintf(stderr, "contexts: the end of the context: %d\n", report.result);
	}
}

static int start_jobs(int n_jobs)
{
	int n = 0;

	for (int i = 0; i < n_jobs; i++) {
		if (jobs[i].fd < 0 && n_queued > 0)
			job_start(&jobs[i]);
		n += jobs[i].fd >= 0;
	}
	return n;
}

static void run(int n_jobs, long long end_ms)
{
	struct pollfd fds[JOBS_MAX];

	while (now_ms() < end_ms && start_jobs(n_jobs) > 0) {
		for (int i = 0; i < n_jobs; i++)
			fds[i] = (struct pollfd){.fd = jobs[i].fd, .events = POLLIN};
		poll(fds, n_jobs, 100);
		for (int i = 0; i < n_jobs; i++) {
			if (jobs[i].fd < 0)
				continue;
			if (fds[i].revents)
				job_read(&jobs[i]);
			else if (now_ms() > jobs[i].deadline_ms)
				job_end(&jobs[i], true);
		}
	}
	for (int i = 0; i < n_jobs; i++)
		if (jobs[i].fd >= 0)
			kill(jobs[i].pid, SIGKILL);
}

static int describe(void)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		abort();
	if (pid == 0)
		worker_describe();
	if (waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) < 2)
		exit(1);
	return WEXITSTATUS(status) - 1;
}

/* One process makes all calls on objects that still exist. */
static int batch_size(enum state state)
{
	return state < STATE_DEAD ? (int)n_calls : BATCH_ENDED;
}

static void plan_state(enum state state, bool is_meant, const char *only_call)
{
	int batch = batch_size(state), first = 0;

	results[state] = calloc(n_calls, sizeof(int));
	if (!results[state])
		abort();
	for (size_t i = 0; i < n_calls; i++)
		results[state][i] = is_meant && (!only_call || !strcmp(only_call, calls[i].symbol))
					    ? RESULT_UNKNOWN
					    : RESULT_SKIPPED;
	for (; first < (int)n_calls; first += batch)
		queue_add(
			state, first, first + batch < (int)n_calls ? first + batch : (int)n_calls);
}

static void plan(const char *only_states, const char *only_call)
{
	int n_devices = describe();

	/* The queue begins at its end. */
	for (int state = N_STATES - 1; state >= 0; state--) {
		bool is_meant = !only_states || strstr(only_states, state_names[state]);

		if (is_meant && state == STATE_OTHER && n_devices < 2) {
			fprintf(stderr, "contexts: the state `other' needs two devices\n");
			is_meant = false;
		}
		plan_state(state, is_meant, only_call);
	}
}

int main(int argc, char **argv)
{
	const char *only_states = NULL, *only_call = NULL;
	long long seconds = 3600;
	int n_jobs = 4;

	if (argc == 2 && !strcmp(argv[1], "--checks"))
		worker_check();
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--jobs"))
			n_jobs = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--seconds"))
			seconds = atoll(argv[i + 1]);
		else if (!strcmp(argv[i], "--hang-ms"))
			hang_ms = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--states"))
			only_states = argv[i + 1];
		else if (!strcmp(argv[i], "--call"))
			only_call = argv[i + 1];
	}
	n_jobs = n_jobs < 1 ? 1 : n_jobs > JOBS_MAX ? JOBS_MAX : n_jobs;
	for (int i = 0; i < JOBS_MAX; i++)
		jobs[i].fd = -1;
	plan(only_states, only_call);
	run(n_jobs, now_ms() + seconds * 1000);
	return 0;
}
