/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks file systems about files, each question on a thread of its own.
 *
 * Invariant: a question belongs to both threads until one of them drops it, and then to the
 * other.
 */

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include "file_facts.h"
#include "kept.h"
#include "thread.h"

/* File systems in memory answer at once. */
#define ANSWER_S 2

struct question {
	pthread_mutex_t lock;
	pthread_cond_t answered;
	int fd; /* owned: the question's own */
	bool is_answered, is_abandoned;
	int r;
	struct file_facts facts;
};

static void question_free(struct question *question)
{
	pthread_cond_destroy(&question->answered);
	pthread_mutex_destroy(&question->lock);
	account_free(question);
}

static int file_facts_ask(int fd, struct file_facts *facts)
{
	struct statfs space;
	struct stat file;

	if (fstat(fd, &file) < 0 || fstatfs(fd, &space) < 0)
		return -errno;
	facts->filesystem = file.st_dev;
	facts->inode = file.st_ino;
	facts->size = (uint64_t)MAX(file.st_size, 0);
	facts->page = space.f_type == HUGETLBFS_MAGIC ? (uint64_t)space.f_bsize
						      : (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}

static void *file_facts_run(void *arg)
{
	struct question *question = arg;
	struct file_facts facts = {0};
	bool is_abandoned;
	int r = file_facts_ask(question->fd, &facts);

	close(question->fd);
	pthread_mutex_lock(&question->lock);
	question->r = r;
	question->facts = facts;
	question->is_answered = true;
	is_abandoned = question->is_abandoned;
	pthread_cond_signal(&question->answered);
	pthread_mutex_unlock(&question->lock);
	if (is_abandoned)
		question_free(question);
	return NULL;
}

/* Whether the answer came in time. If not, the other thread frees the question. */
static bool wait_for_answer(struct question *question)
{
	struct timespec until;
	bool is_answered;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += ANSWER_S;
	pthread_mutex_lock(&question->lock);
	while (!question->is_answered)
		if (pthread_cond_timedwait(&question->answered, &question->lock, &until) != 0)
			break;
	is_answered = question->is_answered;
	question->is_abandoned = !is_answered;
	pthread_mutex_unlock(&question->lock);
	return is_answered;
}

/* The question has a duplicate of `fd', because the caller may close its own before the answer. */
static struct question *question_new(struct account *account, int fd)
{
	struct question *question = account_alloc(account, sizeof(*question), KEPT_THREAD);

	if (!question)
		return NULL;
	pthread_mutex_init(&question->lock, NULL);
	pthread_cond_init(&question->answered, NULL);
	question->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (question->fd >= 0)
		return question;
	question_free(question);
	return NULL;
}

int file_facts_get(struct account *account, int fd, struct file_facts *ret_facts)
{
	struct question *question = question_new(account, fd);
	pthread_t thread;
	int r;

	if (!question)
		return -ENOMEM;
	r = thread_start(&thread, "mps-file", file_facts_run, question);
	if (r < 0) {
		close(question->fd);
		question_free(question);
		return r;
	}
	pthread_detach(thread);
	if (!wait_for_answer(question))
		return -ETIMEDOUT;
	r = question->r;
	*ret_facts = question->facts;
	question_free(question);
	return r;
}
