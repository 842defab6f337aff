/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The tracer as the stubs use it. Its state belongs to the process: each test has a
 * separate child, which writes a file that the parent reads.
 */

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "client/transport/trace.h"

static char folder[] = "/tmp/trace-??????";
static char text[1 << 20];
static unsigned n_passed, n_failed, n_wrong;

#define EXPECT(condition) expect(condition, #condition, __LINE__)

static void expect(bool is_so, const char *what, int line)
{
	if (is_so)
		return;
	n_wrong++;
	printf("line %d: not so: %s\n", line, what);
}

#define TYPES                                                                                      \
	"ppointer,pnull,haddress,isigned,usize,ffactor,obox,sname,snone,"                          \
	"ua_name_of_sixty_three_characters_the_most_that_the_line_can_hav"

/* Does what a stub does, which begins once more when it calls itself. */
static CUresult traced(const char *call, CUresult result)
{
	uint64_t start_ns;

	if (!trace_begin(&start_ns))
		return result;
	EXPECT(!trace_begin(&start_ns));
	return trace_write(call, start_ns, result, (void *)0x1234abcd, NULL,
		(uint64_t)0x200000000200, (uint64_t)-5, (uint64_t)1 << 40, 1.5, "a\"b\\c\nd\377",
		NULL, UINT64_MAX);
}

static const char args[] = "(pointer=0x1234abcd, null=0x0, address=0x200000000200, signed=-5, "
			   "size=1099511627776, factor=1.5, box={...}, "
			   "name=\"a\\x22b\\x5cc\\x0ad\377\", none=NULL, "
			   "a_name_of_sixty_three_characters_the_most_that_the_line_can_hav="
			   "18446744073709551615) = ";

/* Runs `body' in a child with MPS_CLIENT_TRACE set; returns its exit code. */
static int in_child(const char *variable, void (*body)(void), pid_t *ret_pid)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		if (variable)
			setenv("MPS_CLIENT_TRACE", variable, 1);
		else
			unsetenv("MPS_CLIENT_TRACE");
		n_wrong = 0;
		body();
		fflush(stdout);
		_exit(n_wrong > 0);
	}
	waitpid(pid, &status, 0);
	if (ret_pid)
		*ret_pid = pid;
	return status;
}

static const char *path_of(const char *name)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

/* Reads a whole file into `text'; returns its lines. */
static unsigned read_lines(const char *path)
{
	FILE *file = fopen(path, "r");
	unsigned n_lines = 0;
	size_t size;

	text[0] = '\0';
	if (!file)
		return 0;
	size = fread(text, 1, sizeof(text) - 1, file);
	text[size] = '\0';
	fclose(file);
	for (size_t i = 0; i < size; i++)
		n_lines += text[i] == '\n';
	return n_lines;
}

static void body_two_calls(void)
{
	errno = 17;
	EXPECT(traced("cuOne\0" TYPES, CUDA_SUCCESS) == CUDA_SUCCESS);
	EXPECT(traced("cuTwo\0" TYPES, CUDA_ERROR_OUT_OF_MEMORY) == CUDA_ERROR_OUT_OF_MEMORY);
	EXPECT(traced("cuThree\0" TYPES, (CUresult)12345) == (CUresult)12345);
	EXPECT(errno == 17);
	EXPECT(!trace_is_off());
}

static void test_lines(void)
{
	double seconds = -1, took = -1;
	long thread = 0;
	pid_t pid;
	int at = 0;

	EXPECT(in_child(path_of("lines"), body_two_calls, &pid) == 0);
	EXPECT(read_lines(path_of("lines")) == 3);
	EXPECT(sscanf(text, "%lf %ld cuOne%n", &seconds, &thread, &at) == 2 && at > 0);
	EXPECT(seconds >= 0 && seconds < 10 && thread == pid);
	EXPECT(!strncmp(text + at, args, sizeof(args) - 1));
	EXPECT(sscanf(text + at + sizeof(args) - 1, "CUDA_SUCCESS %lf\n", &took) == 1);
	EXPECT(took >= 0 && took < 1e6);
	EXPECT(strstr(text, " cuTwo(") && strstr(text, ") = CUDA_ERROR_OUT_OF_MEMORY "));
	EXPECT(strstr(text, " cuThree(") && strstr(text, ") = 12345 "));
}

static void body_off(void)
{
	EXPECT(!trace_is_off());
	EXPECT(traced("cuOne\0" TYPES, CUDA_ERROR_UNKNOWN) == CUDA_ERROR_UNKNOWN);
	EXPECT(trace_is_off());
}

static void test_off(void)
{
	EXPECT(in_child(NULL, body_off, NULL) == 0);
	EXPECT(in_child("", body_off, NULL) == 0);
}

static void test_no_file(void)
{
	char long_path[5000];

	setenv("MPS_CLIENT_LOG", "error", 1);
	EXPECT(in_child(path_of("none/there"), body_off, NULL) == 0);
	memset(long_path, 'a', sizeof(long_path) - 1);
	long_path[sizeof(long_path) - 1] = '\0';
	EXPECT(in_child(long_path, body_off, NULL) == 0);
	unsetenv("MPS_CLIENT_LOG");
}

static void body_long(void)
{
	static const char call[] = "cuLong\0"
				   "sstring,sstring,sstring,sstring,sstring,sstring,sstring,"
				   "sstring,sstring,sstring,sstring,sstring,sstring,sstring";
	char string[3000];
	const char *s = string;
	uint64_t start_ns = 0;

	memset(string, 'x', sizeof(string) - 1);
	string[sizeof(string) - 1] = '\0';
	EXPECT(trace_begin(&start_ns));
	trace_write(call, start_ns, CUDA_ERROR_ILLEGAL_ADDRESS, s, s, s, s, s, s, s, s, s, s, s, s,
		s, s);
}

static void test_long(void)
{
	const char *end;

	EXPECT(in_child(path_of("long"), body_long, NULL) == 0);
	EXPECT(read_lines(path_of("long")) == 1);
	EXPECT(strlen(text) <= TRACE_LINE_MAX);
	EXPECT(strstr(text, "xxx\"..., string=\"x"));
	end = strstr(text, ") = CUDA_ERROR_ILLEGAL_ADDRESS ");
	EXPECT(end && strchr(end, '\n') == text + strlen(text) - 1);
}

/* Each line is an event, all strings are ASCII, and the last argument is complete. */
static void test_json(void)
{
	static const char event[] =
		"{\"name\":\"cuOne\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"args\":"
		"{\"pointer\":\"0x1234abcd\",\"null\":\"0x0\",\"address\":\"0x200000000200\","
		"\"signed\":-5,\"size\":1099511627776,\"factor\":\"1.5\",\"box\":\"{...}\","
		"\"name\":\"a\\u0022b\\u005cc\\u000ad\\u00ff\",\"none\":null,"
		"\"a_name_of_sixty_three_characters_the_most_that_the_line_can_hav\":"
		"18446744073709551615,"
		"\"result\":\"CUDA_SUCCESS\"},\"ts\":";
	double at = -1, took = -1;
	char expected[1024];
	pid_t pid;
	size_t n;

	EXPECT(in_child(path_of("two.json"), body_two_calls, &pid) == 0);
	EXPECT(read_lines(path_of("two.json")) == 4);
	n = (size_t)snprintf(expected, sizeof(expected), event, (int)pid, (int)pid);
	EXPECT(!strncmp(text, "[\n", 2));
	EXPECT(!strncmp(text + 2, expected, n));
	EXPECT(sscanf(text + 2 + n, "%lf,\"dur\":%lf},\n", &at, &took) == 2);
	EXPECT(at > 0 && took >= 0 && took < 1e6);
	EXPECT(strstr(text, "\"result\":\"12345\"},"));
	/* Another run appends to the file. */
	EXPECT(in_child(path_of("two.json"), body_two_calls, NULL) == 0);
	EXPECT(read_lines(path_of("two.json")) == 7);
	EXPECT(!strstr(text + 1, "["));

	EXPECT(in_child(path_of("long.json"), body_long, NULL) == 0);
	EXPECT(read_lines(path_of("long.json")) == 2);
	EXPECT(strlen(text) <= 2 + TRACE_LINE_MAX);
	EXPECT(strstr(text, "xxx...\",\"result\":\"CUDA_ERROR_ILLEGAL_ADDRESS\"},\"ts\":"));
}

static void body_fork(void)
{
	int status;
	pid_t pid;

	traced("cuParent\0" TYPES, CUDA_SUCCESS);
	pid = fork();
	if (pid == 0) {
		traced("cuChild\0" TYPES, CUDA_SUCCESS);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	traced("cuParent\0" TYPES, CUDA_SUCCESS);
	EXPECT(status == 0);
}

/* %p is the process ID, also in a forked child. */
static void test_fork(void)
{
	char shared[4096], own[4096];
	unsigned n_files = 0;
	FILE *list;
	pid_t pid;

	snprintf(own, sizeof(own), "%s", path_of("fork-%p"));
	EXPECT(in_child(own, body_fork, &pid) == 0);
	snprintf(own, sizeof(own), "%s/fork-%d", folder, (int)pid);
	EXPECT(read_lines(own) == 2);
	EXPECT(!strstr(text, "cuChild"));
	snprintf(own, sizeof(own), "ls %s/fork-* | wc -l", folder);
	list = popen(own, "r");
	EXPECT(list && fscanf(list, "%u", &n_files) == 1 && n_files == 2);
	if (list)
		pclose(list);

	snprintf(shared, sizeof(shared), "%s", path_of("shared"));
	EXPECT(in_child(shared, body_fork, NULL) == 0);
	EXPECT(read_lines(shared) == 3);
}

static void *body_thread(void *unused)
{
	for (int i = 0; i < 200; i++)
		traced("cuThread\0" TYPES, CUDA_SUCCESS);
	return unused;
}

static void body_threads(void)
{
	pthread_t threads[4];

	traced("cuThread\0" TYPES, CUDA_SUCCESS);
	for (unsigned i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_create(&threads[i], NULL, body_thread, NULL);
	for (unsigned i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
}

static void test_threads(void)
{
	unsigned n_whole = 0;

	EXPECT(in_child(path_of("threads"), body_threads, NULL) == 0);
	EXPECT(read_lines(path_of("threads")) == 801);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		n_whole += strstr(line, " cuThread(") && strstr(line, ") = CUDA_SUCCESS ");
	EXPECT(n_whole == 801);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*test)(void);
	} tests[] = {
		{"lines", test_lines},
		{"off", test_off},
		{"no file", test_no_file},
		{"long", test_long},
		{"json", test_json},
		{"fork", test_fork},
		{"threads", test_threads},
	};
	char command[64];

	memset(strchr(folder, '?'), 'X', 6);
	if (!mkdtemp(folder))
		return 1;
	for (unsigned i = 0; i < ARRAY_SIZE(tests); i++) {
		n_wrong = 0;
		tests[i].test();
		if (n_wrong > 0)
			printf("FAIL %s\n", tests[i].name);
		n_failed += n_wrong > 0;
		n_passed += n_wrong == 0;
	}
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	if (system(command))
		printf("%s is left\n", folder);
	printf("%u passed, %u failed\n", n_passed, n_failed);
	return n_failed > 0;
}
