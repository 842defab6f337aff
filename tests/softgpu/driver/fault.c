/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of tests to the software GPU: the switches that make the nth call
 * fail, and the file with the number of live objects.
 *
 * Runs in any thread, under the driver's lock. The file always has the current
 * numbers: code that changes a number updates the file.
 */

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "driver.h"
#include "tests/softgpu/driver/stream/context.h"

#define RULES_MAX 64
#define DIGITS 16

/* One "name:nth=code" of SOFTGPU_FAIL. */
struct rule {
	char name[64]; /* "*" is every call */
	uint64_t nth;
	uint64_t seen;
	CUresult result;
};

static struct rule rules[RULES_MAX];
static size_t n_rules;
static struct softgpu_switch *live; /* SOFTGPU_SWITCH; NULL if it is not set */
static int64_t stats[STATS_N];
static char *stats_text[STATS_N]; /* the digits of each number in the file; NULL without a file */

#define STAT_NAME(upper, lower) #lower,
static const char *const stat_names[STATS_N] = {SOFTGPU_STATS_LIST(STAT_NAME)};

uint64_t env_number(const char *name, uint64_t fallback)
{
	const char *text = getenv(name);
	char *end;
	uint64_t value;

	if (!text || !*text)
		return fallback;
	value = strtoull(text, &end, 10);
	return *end ? fallback : value;
}

static void live_open(void)
{
	const char *path = getenv("SOFTGPU_SWITCH");
	_cleanup_close_ int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *map = MAP_FAILED;

	if (fd >= 0)
		map = mmap(NULL, sizeof(*live), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map != MAP_FAILED)
		live = map;
	else if (path)
		fprintf(stderr, "softgpu: SOFTGPU_SWITCH: cannot map %s: %s\n", path,
			strerror(errno));
}

void fault_init(void)
{
	const char *text = getenv("SOFTGPU_FAIL");
	unsigned long long nth;
	unsigned code;
	int len;

	live_open();
	while (text && *text && n_rules < RULES_MAX) {
		struct rule *rule = &rules[n_rules];

		len = 0;
		if (sscanf(text, "%63[^:,]:%llu=%u%n", rule->name, &nth, &code, &len) != 3) {
			fprintf(stderr, "softgpu: SOFTGPU_FAIL: cannot read '%s'\n", text);
			return;
		}
		rule->nth = nth;
		rule->result = (CUresult)code;
		n_rules++;
		text += len;
		text += *text == ',';
	}
}

/* "cuMemAlloc_v2_ptsz" counts as "cuMemAlloc". */
static bool name_matches(const char *rule, const char *name)
{
	size_t len = strcspn(name, "_");

	return strcmp(rule, "*") == 0 || (strlen(rule) == len && strncmp(rule, name, len) == 0);
}

/* Calls that free objects never fail: an object that stayed would look like a leak. */
static bool gives_back(const char *name)
{
	static const char *const verbs[] = {
		"Destroy", "Free", "Release", "Unload", "Unregister", "Unmap", "Reset"};

	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (strstr(name, verbs[i]))
			return true;
	return false;
}

/* Lets other threads run meanwhile, as the real driver does. */
static void stall(uint32_t ms)
{
	const struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

	pthread_mutex_unlock(&driver.lock);
	nanosleep(&time, NULL);
	pthread_mutex_lock(&driver.lock);
}

static bool live_counts(const char *name)
{
	if (!live || live->nth == 0)
		return false;
	if (live->only[0] && !name_matches(live->only, name))
		return false;
	return live->what != SOFTGPU_SWITCH_RESULT || !gives_back(name);
}

static CUresult live_next(const char *name)
{
	if (!live_counts(name) || ++live->seen != live->nth)
		return CUDA_SUCCESS;
	snprintf(live->name, sizeof(live->name), "%s", name);
	switch (live->what) {
	case SOFTGPU_SWITCH_KILL:
		kill(getpid(), SIGKILL);
		return CUDA_ERROR_UNKNOWN;
	case SOFTGPU_SWITCH_STALL:
		stall(live->arg);
		return CUDA_SUCCESS;
	case SOFTGPU_SWITCH_WAIT:
		return driver.contexts ? device_wait(driver.contexts->device) : CUDA_SUCCESS;
	default:
		return (CUresult)live->arg;
	}
}

CUresult fault_next(const char *name)
{
	CUresult result = live_next(name);

	for (size_t i = 0; i < n_rules; i++)
		if (name_matches(rules[i].name, name) && ++rules[i].seen == rules[i].nth)
			result = rules[i].result;
	return result;
}

bool result_is_sticky(CUresult result)
{
	switch (result) {
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_ECC_UNCORRECTABLE:
		return true;
	default:
		return false;
	}
}

static void stat_write(enum stat_kind stat)
{
	char digits[32];

	if (!stats_text[stat])
		return;
	snprintf(digits, sizeof(digits), "%0*lld", DIGITS, (long long)stats[stat]);
	memcpy(stats_text[stat], digits, DIGITS);
}

void stat_add(enum stat_kind stat, int64_t delta)
{
	stats[stat] += delta;
	stat_write(stat);
}

/* SOFTGPU_STATS, with the process ID for the first %p. */
static int stats_path(char *path, size_t size)
{
	const char *text = getenv("SOFTGPU_STATS");
	const char *mark;
	int len;

	if (!text || !*text)
		return -ENOENT;
	mark = strstr(text, "%p");
	if (mark)
		len = snprintf(
			path, size, "%.*s%d%s", (int)(mark - text), text, getpid(), mark + 2);
	else
		len = snprintf(path, size, "%s", text);
	return len < 0 || (size_t)len >= size ? -ENAMETOOLONG : 0;
}

void stats_open(void)
{
	_cleanup_close_ int fd = -EBADF;
	char path[4096];
	size_t size = 0;
	char *text;

	if (stats_path(path, sizeof(path)) < 0)
		return;
	for (size_t i = 0; i < STATS_N; i++)
		size += strlen(stat_names[i]) + 1 + DIGITS + 1;
	/* The file is not truncated first: a process that is ending may still map it. */
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0) {
		fprintf(stderr, "softgpu: SOFTGPU_STATS: cannot write %s: %s\n", path,
			strerror(errno));
		return;
	}
	text = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (text == MAP_FAILED)
		return;
	for (enum stat_kind i = 0; i < STATS_N; i++) {
		text = stpcpy(text, stat_names[i]);
		*text++ = ' ';
		stats_text[i] = text;
		stat_write(i);
		text[DIGITS] = '\n';
		text += DIGITS + 1;
	}
}
