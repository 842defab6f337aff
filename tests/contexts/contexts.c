/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The matrix of contexts: what each driver call answers if the thread's current context is not the
 * context of the objects that the call names.
 *
 *     contexts [--jobs N] [--batch N] [--state NAME] [--call SYMBOL]
 *
 * Prints a line for each call, with the result in each state (enum state): a CUresult, or a word.
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
#define SETUP_MS 60000
#define CALL_MS 8000

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
	long long deadline_ms;
};

static int *results[N_STATES];
static struct batch *queue;
static int n_queued;
static struct job jobs[JOBS_MAX];

static long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
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
	*job = (struct job){.batch = batch, .fd = fds[0], .deadline_ms = now_ms() + SETUP_MS};
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

/* The process has died or was killed in the middle of a step. */
static void job_blame(struct job *job, int result)
{
	struct batch *batch = &job->batch;
	int *row = results[batch->state];

	if (!job->has_begun || job->step == STEP_END) {
		int middle = (batch->first + batch->end) / 2;

		if (batch->end - batch->first > 1) {
			queue_add(batch->state, batch->first, middle);
			queue_add(batch->state, middle, batch->end);
			return;
		}
		row[batch->first] = RESULT_FIXTURE;
	} else if (job->step == STEP_PREPARE) {
		row[job->call] = RESULT_FIXTURE;
	} else if (job->step == STEP_CALL) {
		row[job->call] = result;
	}
	queue_add(batch->state, batch->first, batch->end);
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
	if (is_late)
		job_blame(job, RESULT_HANG);
	else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		job_blame(job, RESULT_CRASH);
	else
		queue_add(job->batch.state, job->batch.first, job->batch.end);
}

static void job_read(struct job *job)
{
	struct report report;
	ssize_t n = read(job->fd, &report, sizeof(report));

	if (n != sizeof(report)) {
		job_end(job, false);
		return;
	}
	job->has_begun = true;
	job->step = report.step;
	job->call = report.call;
	job->deadline_ms = now_ms() + (report.step == STEP_CALL ? CALL_MS : SETUP_MS);
	if (report.step == STEP_DONE)
		results[job->batch.state][report.call] = report.result;
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

static void run(int n_jobs)
{
	struct pollfd fds[JOBS_MAX];

	while (start_jobs(n_jobs) > 0) {
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
}

static int count_devices(void)
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

static void print_result(int result)
{
	static const char *const words[] = {"?", "absent", "fixture", "crash", "hang", "-"};

	if (result >= 0)
		printf(" %d", result);
	else
		printf(" %s", words[RESULT_UNKNOWN - result]);
}

static void print_results(const char *only_call)
{
	printf("# call");
	for (int state = 0; state < N_STATES; state++)
		printf(" %s", state_names[state]);
	printf("\n");
	for (size_t i = 0; i < n_calls; i++) {
		if (only_call && strcmp(calls[i].symbol, only_call))
			continue;
		printf("%s", calls[i].symbol);
		for (int state = 0; state < N_STATES; state++)
			print_result(results[state][i]);
		printf("\n");
	}
}

static void plan(const char *only_state, const char *only_call, int batch)
{
	int n_devices = count_devices();

	if (n_devices < 2)
		fprintf(stderr, "contexts: the state `other' needs two devices: %d\n", n_devices);
	for (int state = 0; state < N_STATES; state++) {
		bool is_skipped = (only_state && strcmp(only_state, state_names[state])) ||
				  (state == STATE_OTHER && n_devices < 2);

		results[state] = calloc(n_calls, sizeof(int));
		if (!results[state])
			abort();
		for (size_t i = 0; i < n_calls; i++) {
			bool is_other = only_call && strcmp(only_call, calls[i].symbol);

			results[state][i] =
				is_skipped || is_other ? RESULT_SKIPPED : RESULT_UNKNOWN;
		}
		for (int first = 0; first < (int)n_calls; first += batch) {
			int end = first + batch;

			queue_add(state, first, end < (int)n_calls ? end : (int)n_calls);
		}
	}
}

int main(int argc, char **argv)
{
	const char *only_state = NULL, *only_call = NULL;
	int n_jobs = (int)sysconf(_SC_NPROCESSORS_ONLN), batch = 32;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--jobs"))
			n_jobs = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--batch"))
			batch = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--state"))
			only_state = argv[i + 1];
		else if (!strcmp(argv[i], "--call"))
			only_call = argv[i + 1];
	}
	n_jobs = n_jobs < 1 ? 1 : n_jobs > JOBS_MAX ? JOBS_MAX : n_jobs;
	batch = batch < 1 ? 1 : batch;
	for (int i = 0; i < JOBS_MAX; i++)
		jobs[i].fd = -1;
	plan(only_state, only_call, batch);
	run(n_jobs);
	print_results(only_call);
	return 0;
}
